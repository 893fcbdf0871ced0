// Package control makes decisions under load and failure: when to pause a source, when to leave an
// endpoint alone, and when to retry a call. Its controllers are pure: they do not read the clock,
// draw random numbers or start goroutines. So the engine and the simulator run the same code.
package control
