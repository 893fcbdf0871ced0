package auth_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/auth"
)

// A token is issued, and says who the client is until it ends.
func Example() {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	keys, err := auth.New(auth.Keys{
		Keys: []auth.Key{{ID: "2026-11", Secret: "0123456789abcdef0123456789abcdef", Audience: "gateway"}},
	}, auth.Options{Now: func() time.Time { return now }})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := keys.Issue("2026-11", auth.Identity{Tenant: "acme", Client: "c42"}, 15*time.Minute)
	if err != nil {
		fmt.Println(err)
		return
	}
	who, err := keys.Verify(context.Background(), text)
	fmt.Println(who.Tenant, who.Client, "until", who.Expires.UTC().Format(time.TimeOnly), err)

	now = now.Add(time.Hour)
	_, err = keys.Verify(context.Background(), text)
	var refusal *auth.Error
	fmt.Println(errors.As(err, &refusal), refusal.Reason)
	fmt.Println(err)
	// Output:
	// acme c42 until 12:15:00 <nil>
	// true expired
	// token refused: expired: it ended 45m0s ago (key 2026-11): the client gets another and connects again
}
