package auth

// Reason is why a token is refused: a label of metrics.
type Reason string

// The reasons.
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

// hints says what to do next.
var hints = map[Reason]string{
	TooLarge:        "issue it with fewer claims",
	Malformed:       "see that it is whole, and neither quoted nor changed on its way; `afterbay token inspect` reads it",
	LegacyOff:       "issue tokens by `afterbay token issue`, or write `legacy` into the file of keys",
	UnknownKey:      "add its key to the file of keys, or issue it with one that is there",
	KeysUnavailable: "see that `jwks` of the file of keys can be reached from here; it is read once a minute at most, where tokens name other keys",
	WrongAlgorithm:  "sign it by the algorithm that the file of keys says, or correct `alg` there",
	BadSignature:    "see that issuer and gateway have the same key; otherwise somebody made it up",
	Incomplete:      "issue it with sub, tid, aud, iat and exp",
	Expired:         "the client gets another and connects again",
	NotYetValid:     "set the clocks of issuer and gateway, or raise `skew` in the file of keys",
	TooLong:         "issue it for less, or raise `lifetime` in the file of keys",
	WrongIssuer:     "get it of the issuer that the file of keys says",
	WrongAudience:   "issue it for the audience that the file of keys says: this one is for another service",
	WrongTenant:     "issue it with a key of its tenant",
}

// Error says why a token is refused, for logs: it holds no part of a token and no
// secret. A client is told only that it is refused: more would help to guess one.
type Error struct {
	Reason Reason
	Key    string // id of the key, of those that are known; "" where none was found
	Signed bool   // the signature holds: what is wrong is what the token says
	Detail string // may be empty
	Err    error  // behind it, or nil
}

// Error returns reason, key, detail and what to do next.
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

// Unwrap returns what is behind it.
func (e *Error) Unwrap() error { return e.Err }
