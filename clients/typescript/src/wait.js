const backoffFirst = 500
const backoffMost = 20_000
const againMost = 1_000

/**
 * Returns how long to wait, in ms, after so many failures in a row: anything up to a bound
 * that doubles, so that clients which lost one gateway do not come to the next together.
 */
export function backoff(failures, random = Math.random) {
  return random() * Math.min(backoffMost, backoffFirst * 2 ** Math.min(failures, 10))
}

/**
 * Returns how long to wait, in ms, before an event is sent again that was not taken so many
 * times: what the gateway asks for, doubled each time, and up to as much more.
 */
export function grown(after, tries, random = Math.random) {
  if (!(after > 0)) return 0
  const bound = Math.max(after, Math.min(againMost, after * 2 ** Math.min(tries, 10)))
  return bound * (1 + random())
}

/** Waits for a promise, or throws the signal's reason when it is aborted. */
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
