// A client that sends events to gateways and receives their results, with the protocol afterbay.v1.
export { Client } from './client.js'
export { CloseError, EventError } from './errors.js'
