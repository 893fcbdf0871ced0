package fetch

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/afterbay/afterbay/internal/sys/httpclient"
)

const (
	redirectsMax = 5
	headerMax    = 64 << 10
)

// guardError says why a place must not be called.
type guardError struct{ why string }

// Error returns the reason.
func (e *guardError) Error() string { return e.why }

// newClient returns a client that connects only to allowed addresses. It checks an address when it
// connects. So neither a redirect, nor a name that resolves to another address a moment later, can
// reach a forbidden one. It uses no proxy, because a proxy would connect on its behalf.
func newClient(o *Options) *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		return o.reachable(address)
	}}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: 16, MaxIdleConns: 256, IdleConnTimeout: time.Minute,
			DisableCompression: true, MaxResponseHeaderBytes: headerMax,
		},
		CheckRedirect: func(request *http.Request, via []*http.Request) error {
			switch {
			case len(via) > redirectsMax:
				return &guardError{fmt.Sprintf("more than %d redirects", redirectsMax)}
			case via[len(via)-1].URL.Scheme == "https" && request.URL.Scheme != "https":
				return &guardError{"it redirects to " + httpclient.Shown(request.URL) + ", without encryption"}
			}
			if err := o.allowed(request.URL); err != nil {
				return &guardError{"it redirects to " + httpclient.Shown(request.URL) + ": " + err.Error()}
			}
			request.Header.Del("Referer")
			return nil
		},
	}
}

func (f *Fetcher) allowed(to *url.URL) error { return f.options.allowed(to) }

// allowed returns an error if a URL must not be fetched.
func (o *Options) allowed(to *url.URL) error {
	scheme, host := strings.ToLower(to.Scheme), strings.ToLower(strings.TrimSuffix(to.Hostname(), "."))
	switch {
	case to.User != nil:
		return &guardError{"a password has no place in a URL"}
	case scheme == "http" && !o.Plain:
		return &guardError{"it is not encrypted: use https, or allow http with content.http"}
	case scheme != "https" && scheme != "http":
		return &guardError{"the URL is not valid: use https://HOST/PATH"}
	}
	if o.Hosts == nil {
		return nil
	}
	for _, one := range o.Hosts {
		one = strings.ToLower(one)
		if below, wild := strings.CutPrefix(one, "*"); one == host || wild && strings.HasSuffix(host, below) && len(host) > len(below) {
			return nil
		}
	}
	return &guardError{fmt.Sprintf("content.hosts does not name %q", host)}
}

// inner lists networks that are not public, in addition to those that netip knows. They are for
// carriers, this network, protocols, tests and future use, or embed an IPv4 address.
var inner = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("168.63.129.16/32"), // the Azure host agent; a virtual machine reaches it at this public address
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2001::/32"),
	netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("fec0::/10"), netip.MustParsePrefix("::/96"),
}

// reachable returns an error if connections to an address are forbidden.
func (o *Options) reachable(address string) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return &guardError{fmt.Sprintf("%q is not an address", address)}
	}
	ip := to.Addr().Unmap().WithZone("")
	for _, network := range o.Private {
		if network.Contains(ip) {
			return nil
		}
	}
	private := !ip.IsGlobalUnicast() || ip.IsPrivate()
	for _, network := range inner {
		private = private || network.Contains(ip)
	}
	if private {
		return &guardError{fmt.Sprintf("its address %v is private: add its network to content.private to allow it", ip)}
	}
	return nil
}
