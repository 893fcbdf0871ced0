package gateway

import "github.com/afterbay/afterbay/internal/gateway/wire"

// closeCode says why the gateway ends a connection. From 4500 on, the client should reconnect.
type closeCode int

const (
	closeBadRequest closeCode = 4000
	closeBadToken   closeCode = 4001
	closeReplaced   closeCode = 4009
	closeDrain      closeCode = 4501
	closeExpired    closeCode = 4502
	closeNoPong     closeCode = 4503
	closeSlow       closeCode = 4504
	closeQuota      closeCode = 4506
	closeInternal   closeCode = 4507
	closeNoConnect  closeCode = 4508 // the client sent no connect in time; a slow network can be the cause
)

var closeReasons = map[closeCode]string{
	closeBadRequest: "bad_request",
	closeBadToken:   "invalid_token",
	closeNoConnect:  "no_connect",
	closeReplaced:   "session_replaced",
	closeDrain:      "drain",
	closeExpired:    "token_expired",
	closeNoPong:     "no_pong",
	closeSlow:       "slow_consumer",
	closeQuota:      "tenant_quota",
	closeInternal:   "internal",
}

func (c closeCode) frame(retryAfterMs int64) *wire.Disconnect {
	return &wire.Disconnect{Code: int(c), Reason: closeReasons[c], Reconnect: c >= 4500, RetryAfterMs: retryAfterMs}
}
