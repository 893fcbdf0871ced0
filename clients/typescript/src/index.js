// Sends events to gateways and receives their results, by protocol afterbay.v1.
export { Client } from './client.js'
export { CloseError, EventError } from './errors.js'
