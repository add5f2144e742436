package fleet

import (
	"testing"
	"time"
)

func TestPollingOver(t *testing.T) {
	all := Polling{Policy: "hz", Bootstrap: 5 * time.Minute, MinGap: time.Second, MaxGap: time.Hour,
		PollsPerPublication: 1.15, SD: "folded", PublishTimes: "auto"}
	if got := (Polling{}).Over(all); got != all {
		t.Errorf("nothing said: %+v", got)
	}
	own := Polling{Policy: "fixed", Bootstrap: time.Minute, Price: time.Second, Desync: time.Second}
	want := all
	want.Policy, want.Bootstrap, want.Desync = "fixed", time.Minute, time.Second
	want.Price, want.PollsPerPublication = time.Second, 0
	if got := own.Over(all); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
