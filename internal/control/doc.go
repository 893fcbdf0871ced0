// Package control decides what happens under load and failure: when a source is
// paused, an endpoint left alone, a call tried again. Its controllers are pure:
// they read no clock, draw no random numbers and start nothing, so that the
// engine and the simulator run the same code.
package control
