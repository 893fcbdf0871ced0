const backoffFirst = 500
const backoffMost = 20_000
const againMost = 1_000

/**
 * Returns how long to wait, in ms, after a number of failures in a row. The time is random, up to a
 * bound that doubles with each failure. Clients that lost the same gateway therefore do not all
 * reconnect at the same time.
 */
export function backoff(failures, random = Math.random) {
  return random() * Math.min(backoffMost, backoffFirst * 2 ** Math.min(failures, 10))
}

/**
 * Returns how long to wait, in ms, before the client sends an event again. The wait starts at the
 * time that the gateway asks for, and doubles with each try, up to a bound. A random part of up to
 * the same length is added.
 */
export function grown(after, tries, random = Math.random) {
  if (!(after > 0)) return 0
  const bound = Math.max(after, Math.min(againMost, after * 2 ** Math.min(tries, 10)))
  return bound * (1 + random())
}

/** Waits for a promise, and throws the signal's reason when the signal is aborted. */
export function abortable(promise, signal) {
  if (!signal) return promise
  let listener
  const aborted = new Promise((_, reject) => {
    listener = () => reject(signal.reason)
    if (signal.aborted) listener()
    signal.addEventListener('abort', listener)
  })
  return Promise.race([promise, aborted]).finally(() => signal.removeEventListener('abort', listener))
}
