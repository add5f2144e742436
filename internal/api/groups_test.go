package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/repository"
)

// Groups are told as they stand, and their snapshots served as they were made.
func TestGroups(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	d.group()
	var list struct {
		Groups []struct {
			ID          string
			AtLeast     int `json:"at_least"`
			MemberCount int `json:"member_count"`
			Latest      *struct{ Hash string }
		}
		Next string
	}
	d.get("/api/v1/groups?limit=1", &list)
	if len(list.Groups) != 1 || list.Groups[0].ID != "house" || list.Groups[0].Latest != nil ||
		list.Groups[0].MemberCount != d.fleet.Len() || list.Next != "street" {
		t.Errorf("%+v", list)
	}
	d.refused("/api/v1/groups/house/body", 404, "never republished")
	d.refused("/api/v1/groups/house/versions/"+strings.Repeat("0", 64)+"/body", 404, "never")
	var versions struct {
		Versions []struct {
			At    time.Time
			Hash  string
			Parts int
		}
		Next string
	}
	d.get("/api/v1/groups/house/versions", &versions)
	if len(versions.Versions) != 0 || versions.Next != "" {
		t.Errorf("%+v", versions)
	}
	first, at := d.fleet.At(0), d.now
	for i := range 5 {
		at = at.Add(time.Second)
		d.store(first.ID, at, fmt.Appendf(nil, "</%d>", i), 40)
	}
	d.get("/api/v1/groups/street", &struct{}{})
	seen := 0
	for next := ""; ; next = "&before=" + versions.Next {
		d.get("/api/v1/groups/house/versions?limit=2"+next, &versions)
		for _, v := range versions.Versions {
			w := d.request("GET", "/api/v1/groups/house/versions/"+v.Hash+"/body", "@")
			base, _, _ := strings.Cut(first.URI, "/.well-known")
			want := fmt.Sprintf(`<%s/%d>;anchor="%s"`, base, 4-seen, base)
			if w.Body.String() != want || v.Parts != 1 ||
				w.Header().Get("Content-Type") != "application/link-format" {
				t.Errorf("%d: %s %v, want %s", seen, w.Body, w.Header(), want)
			}
			seen++
		}
		if versions.Next == "" {
			break
		}
	}
	if seen != 5 {
		t.Errorf("%d versions, want 5", seen)
	}
}

// What a group stands at is told member by member, and history outlives the group.
func TestGroupMembers(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	member := func(i int) repository.Member {
		return repository.Member{ID: d.fleet.At(i).ID, URI: d.fleet.At(i).URI}
	}
	set := func(groups ...repository.Group) {
		t.Helper()
		if err := d.repo.SetGroups(t.Context(), groups, d.now); err != nil {
			t.Fatal(err)
		}
	}
	set(repository.Group{ID: "two", AtLeast: 2, Members: []repository.Member{member(0), member(1),
		member(2)}})
	hash := d.store(d.fleet.At(1).ID, d.now, []byte("</a>"), 40)
	var got struct {
		New     int
		Members []struct {
			ID, Kind, Hash string
			New            bool
			At             *time.Time
		}
		Latest *struct {
			Hash   string
			MadeOf []struct{ ID, Kind, Hash string } `json:"made_of"`
		}
	}
	d.get("/api/v1/groups/two", &got)
	if got.New != 1 || len(got.Members) != 3 || got.Latest != nil || got.Members[0].At != nil ||
		!got.Members[1].New || got.Members[1].Hash != hash || !got.Members[1].At.Equal(d.now) {
		t.Fatalf("%+v", got)
	}
	d.store(d.fleet.At(2).ID, d.now, []byte("</b>"), 40)
	d.get("/api/v1/groups/two", &got)
	if got.New != 0 || got.Latest == nil || len(got.Latest.MadeOf) != 2 ||
		got.Latest.MadeOf[0].Hash != hash || got.Latest.MadeOf[0].Kind != "sensor" {
		t.Fatalf("%+v", got)
	}
	set()
	d.refused("/api/v1/groups/two", 404, "there is no group")
	if w := d.request("GET", "/api/v1/groups/two/body", "@"); w.Code != http.StatusOK {
		t.Errorf("the body of a group that is gone: %d %s", w.Code, w.Body)
	}
	d.get("/api/v1/groups/two/versions", &struct{}{})
}

func TestGroupsRefuse(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	d.group()
	for target, want := range map[string]struct {
		status int
		text   string
	}{
		"/api/v1/groups?limit=0":                     {400, "limit"},
		"/api/v1/groups?id=house":                    {400, "unknown parameter"},
		"/api/v1/groups/house?x=1":                   {400, "unknown parameter"},
		"/api/v1/groups/nobody":                      {404, "there is no group"},
		"/api/v1/groups/nobody/versions":             {404, "there is no group"},
		"/api/v1/groups/nobody/body":                 {404, "there is no group"},
		"/api/v1/groups/house/versions?before=x":     {400, "before"},
		"/api/v1/groups/house/versions/zz/body":      {400, "hash"},
		"/api/v1/groups/" + strings.Repeat("x", 600): {400, "id"},
	} {
		d.refused(target, want.status, want.text)
	}
}
