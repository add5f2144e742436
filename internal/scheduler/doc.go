// Package scheduler solves the EasiCrawl problem: which sensors to crawl in a
// time range, how often, and at which instants, so that the expected latency of
// what they capture is least.
//
// # The problem
//
// Sensor i is awake in the windows of its sleep plan, captures events while
// awake as a Poisson process of rate lambda_i, matters with weight omega_i and
// may be crawled at most gamma_i times in a range [0, T). The server makes at
// most theta crawls in it. An event captured at u and seen by the crawl at t
// costs t-u. With c_i = omega_i lambda_i the cost of crawling at t after a crawl
// at s is, by Campbell's formula,
//
//	w(s,t) = c Int_s^t a(u) (t-u) du = c [ t (A(t)-A(s)) - (B(t)-B(s)) ]   (W)
//
// with awake mass A and first moment B. This is the exact value of what equation
// (5) of the EasiCrawl paper (Meng et al.) sets out to give; equation (5) itself
// takes every event's time as that of the first one and is off by up to a
// factor of two.
//
// Instants are integer ticks and windows half-open, so that U = 4 w/c is an EVEN
// integer in square ticks. Everything is decided on U; floating point enters
// only where sensors of different c are compared.
//
// # What is proved
//
//   - T1, Monge. For s1<=s2<=t1<=t2, w(s1,t2)+w(s2,t1) >= w(s1,t1)+w(s2,t2),
//     for every sleep plan, on every subset of instants, and with prices on
//     instants. More generally let w(s,t) = Int_s^t a(u) g(t-u) du, where g(v), what
//     an event of age v costs, does not fall. Only what was captured between s1
//     and s2 waits differently on the two sides: the left one is larger by
//     Int_{s1}^{s2} a(u) [g(t2-u) - g(t1-u)] du >= 0. Latency has g(v) = c v;
//     equation (5) has its own derivative, which rises because (5) is convex.
//   - T2, convexity. The least cost e(n) of n crawls is convex, for every sleep
//     plan; the EasiCrawl paper had to conjecture it. Take optimal plans P of n-1
//     crawls and Q of n+1. Index 0 is the source in both, and P_n is what follows
//     P's last crawl, a look-ahead crawl or the sink. Let i be the first index with
//     Q_{i+2} <= P_{i+1}; n-1 is one, since a crawl that counts comes before what
//     follows P's last. Then P_i <= Q_{i+1} as well, or i-1 would have come first.
//     So the link Q_{i+1} Q_{i+2} lies within P_i P_{i+1}. Cross them: Q up to
//     Q_{i+1} and P from P_{i+1}, and P up to P_i and Q from Q_{i+2}, have n crawls
//     each and by T1 cost no more together. Hence 2 e(n) <= e(n-1) + e(n+1).
//     The same swap makes of k1 and k2 crawls any k and k1+k2-k between them
//     (Aggarwal, Schieber, Tokuyama 1994), and an optimal plan of n-1 or n+1
//     crawls interleaves with any optimal plan of n.
//   - T3, one arrangement. A separable convex sum under a budget and caps is
//     least where the theta largest marginals e(n-1)-e(n) are taken (Fox 1966),
//     and where no exchange of one crawl for another gains.
//   - T4, one price. At a price mu per crawl every sensor decides alone, and the
//     number it takes falls with mu.
//   - T5, ties. U is even, so at an ODD price no marginal is met and the count
//     is unique. The chord between two known points of e, made odd, returns a
//     count strictly between them or proves all marginals between them equal;
//     then splicing gives every count between.
//   - T6, side conditions. Node prices keep T1, so a range may look ahead into
//     the next one at the last price.
//   - T7, shape. Inside a window a crawl is balanced (awake time since the last
//     crawl equals time to the next) or stands at an end of the window.
//
// # How it is solved
//
// One sensor at one price is a shortest path whose edges are lines in the tick:
// PENAL walks a lower hull in O(m) for m candidates (hull.go). Interleaving gives
// both neighbouring marginals in O(m) more (curve.go). EXACT_N finds the plan of a
// given count by chords (exactn.go). ONE PRICE (oneprice.go) estimates the fleet's
// price on a sample, settles every sensor at it once, and then takes or drops
// the few crawls by which the sum misses theta, in the order of their exact
// marginals: the result is the exact optimum on the candidate set, ties going
// to the lower sensor index, for any number of workers. Chosen instants are then
// polished on ticks (polish.go) and spread to the server's capacity (spillback.go).
package scheduler
