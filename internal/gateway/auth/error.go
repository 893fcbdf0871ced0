package auth

// Reason is why a token is refused. It is a label of metrics.
type Reason string

// The values of Reason.
const (
	TooLarge        Reason = "too large"
	Malformed       Reason = "malformed"
	LegacyOff       Reason = "legacy form is off"
	UnknownKey      Reason = "unknown key"
	KeysUnavailable Reason = "keys unavailable"
	WrongAlgorithm  Reason = "wrong algorithm"
	BadSignature    Reason = "bad signature"
	Incomplete      Reason = "incomplete"
	Expired         Reason = "expired"
	NotYetValid     Reason = "not yet valid"
	TooLong         Reason = "lasts too long"
	WrongIssuer     Reason = "wrong issuer"
	WrongAudience   Reason = "wrong audience"
	WrongTenant     Reason = "wrong tenant"
)

// hints says, for each Reason, what to do next.
var hints = map[Reason]string{
	TooLarge:        "issue it with fewer claims",
	Malformed:       "see that it is whole, and neither quoted nor changed on its way; `afterbay token inspect` reads it",
	LegacyOff:       "issue tokens by `afterbay token issue`, or write `legacy` into the file of keys",
	UnknownKey:      "add its key to the file of keys, or issue it with a key of that file",
	KeysUnavailable: "see that `jwks` of the file of keys can be reached from here; it is read once a minute at most, where tokens name other keys",
	WrongAlgorithm:  "sign it with the algorithm in the file of keys, or correct `alg` there",
	BadSignature:    "check that issuer and gateway have the same key; otherwise the token is forged",
	Incomplete:      "issue it with sub, tid, aud, iat and exp",
	Expired:         "the client gets another and connects again",
	NotYetValid:     "set the clocks of issuer and gateway, or raise `skew` in the file of keys",
	TooLong:         "issue it for less, or raise `lifetime` in the file of keys",
	WrongIssuer:     "get it from the issuer in the file of keys",
	WrongAudience:   "issue it for the audience in the file of keys: this token is for another service",
	WrongTenant:     "issue it with a key of its tenant",
}

// Error is the reason why a token is refused. It contains no secret and no part of the token, so it
// may be logged. Clients learn only that their token is refused: details would help an attacker to
// forge one.
type Error struct {
	Reason Reason
	Key    string // id of the key, if it is known; otherwise ""
	Signed bool   // the signature is valid: the error is in the claims
	Detail string // may be empty
	Err    error  // the cause, or nil
}

// Error returns the reason, detail, key, cause and a hint.
func (e *Error) Error() string {
	text := "token refused: " + string(e.Reason)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.Key != "" {
		text += " (key " + e.Key + ")"
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text + ": " + hints[e.Reason]
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
