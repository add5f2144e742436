// Package planner decides who is crawled when. It joins the planned crawls of
// sensors whose sleep plan is known (package scheduler) with the polls of those
// whose plan is not (package dpt), one time range after another.
//
// A Planner is asked and told. Next says which visit is due or how long to
// wait, Observe says what became of one, Problem and Adopt carry a range's
// optimisation out of the loop and back. It reads no clock, does no IO and
// holds no lock: ONE loop owns it, the daemon's or the simulator's, so every
// figure the simulator prints is evidence about the daemon.
//
// Two promises are hard counters, never exceeded: theta, the attempts at
// sensors per range whatever their kind (manual ones are counted beside it),
// and each sensor's cap gamma. Missed visits count against neither; attempts in
// flight when the process dies count as spent.
//
// The same fleet, the same saved state and the same outcomes in the same order
// give the same decisions, for any number of workers.
package planner
