package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/spec"
)

// Where secrets come from, apart from files and variables that the settings name.
const (
	envUser     = "AFTERBAY_KAFKA_USER"
	envPassword = "AFTERBAY_KAFKA_PASSWORD"
	envToken    = "AFTERBAY_KAFKA_TOKEN"
)

// engineSettings are what may stand behind the question mark of a URL: the words
// of `engine:` but the secrets, since command lines are read by others.
var engineSettings = map[string]func(e *afterbay.Engine, value string) bool{
	"ca":             setText(func(e *afterbay.Engine) *string { return &e.CA }),
	"cert":           setText(func(e *afterbay.Engine) *string { return &e.Cert }),
	"key":            setText(func(e *afterbay.Engine) *string { return &e.Key }),
	"sasl":           setText(func(e *afterbay.Engine) *string { return &e.SASL }),
	"user":           setText(func(e *afterbay.Engine) *string { return &e.User }),
	"password_file":  setText(func(e *afterbay.Engine) *string { return &e.PasswordFile }),
	"token_file":     setText(func(e *afterbay.Engine) *string { return &e.TokenFile }),
	"token_url":      setText(func(e *afterbay.Engine) *string { return &e.TokenURL }),
	"scope":          setText(func(e *afterbay.Engine) *string { return &e.Scope }),
	"client_id":      setText(func(e *afterbay.Engine) *string { return &e.ClientID }),
	"rack":           setText(func(e *afterbay.Engine) *string { return &e.Rack }),
	"group_protocol": setText(func(e *afterbay.Engine) *string { return &e.GroupProtocol }),
	"replication_factor": func(e *afterbay.Engine, value string) bool {
		n, err := strconv.ParseInt(value, 10, 16)
		e.ReplicationFactor = int(n)
		return err == nil && n > 0
	},
}

func setText(get func(*afterbay.Engine) *string) func(*afterbay.Engine, string) bool {
	return func(e *afterbay.Engine, value string) bool { *get(e) = value; return value != "" }
}

// parseEngine reads the URL of a flag, with settings, and checks it.
func parseEngine(text string) (e afterbay.Engine, found afterbay.Errors) {
	address, query, _ := strings.Cut(text, "?")
	e.URL = address
	settings, err := url.ParseQuery(query)
	if err != nil {
		return e, append(found, &afterbay.Error{Path: "engine.url", Message: "the settings cannot be read: " + err.Error(), Hint: "write SETTING=VALUE&SETTING=VALUE behind the question mark"})
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		set, ok := engineSettings[name]
		switch values := settings[name]; {
		case !ok && spec.NewWord("", "engine", name) != "":
			found = append(found, &afterbay.Error{Path: "engine." + name, Message: "it is now " + spec.NewWord("", "engine", name), Hint: "docs/upgrading.md lists all renames"})
		case !ok:
			found = append(found, &afterbay.Error{Path: "engine." + name, Message: "unknown setting", Hint: "there are " + strings.Join(slices.Sorted(maps.Keys(engineSettings)), ", ")})
		case len(values) > 1 || !set(&e, values[0]):
			found = append(found, &afterbay.Error{Path: "engine." + name, Message: fmt.Sprintf("%q is not one value", values), Hint: "write one, for replication_factor a number from 1"})
		}
	}
	e.SASL = strings.ToLower(e.SASL)
	return e, append(found, checkEngine(e)...)
}

// engineChecks finds what is wrong with settings.
type engineChecks struct {
	*afterbay.Engine
	found afterbay.Errors
}

func (c *engineChecks) fail(setting, message, hint string) {
	c.found = append(c.found, &afterbay.Error{Path: "engine." + setting, Message: message, Hint: hint})
}

// checkEngine returns what is wrong with an engine, without a look at files and
// the environment.
func checkEngine(e afterbay.Engine) afterbay.Errors {
	c := &engineChecks{Engine: &e}
	rest := e
	if rest.URL = ""; e.URL == embeddedEngine && rest == (afterbay.Engine{}) {
		return nil
	}
	c.address()
	if secure := strings.HasPrefix(e.URL, "kafka+tls://"); !secure {
		for _, s := range []struct{ name, value string }{{"ca", e.CA}, {"cert", e.Cert}, {"key", e.Key}} {
			if s.value != "" {
				c.fail(s.name, "there are certificates only where the way is encrypted", "write kafka+tls:// in the URL, or remove it")
			}
		}
	}
	switch {
	case e.Cert != "" && e.Key == "":
		c.fail("cert", "a certificate without its key", "name the file of the key with `key`")
	case e.Cert == "" && e.Key != "":
		c.fail("key", "a key without its certificate", "name the file of the certificate with `cert`")
	}
	if e.GroupProtocol != "" && e.GroupProtocol != "classic" && e.GroupProtocol != "consumer" {
		c.fail("group_protocol", fmt.Sprintf("%q is unknown", e.GroupProtocol), "use classic, where the members assign partitions, or consumer, where the brokers do (Kafka 4.0)")
	}
	c.sasl()
	return c.found
}

// address checks the URL.
func (c *engineChecks) address() {
	scheme, hosts, _ := strings.Cut(c.URL, "://")
	switch {
	case scheme != "kafka" && scheme != "kafka+tls":
		c.fail("url", fmt.Sprintf("%q is no engine", scheme), "use kafka://HOST:PORT, kafka+tls://HOST:PORT, or embedded, which has no settings")
	case strings.Contains(hosts, "@"):
		c.fail("url", "a URL is no place for a user and a password", "use the settings sasl and user, and "+envPassword+" or the setting password_file")
	case strings.Contains(hosts, "?"):
		c.fail("url", "settings behind the URL", "write each as a word below `engine`, beside `url`")
	case strings.TrimSuffix(hosts, "/") == "" || strings.Contains(strings.TrimSuffix(hosts, "/"), "/"):
		c.fail("url", "brokers are named as HOST:PORT,HOST:PORT and nothing else", "write kafka://HOST:PORT, with settings apart from it")
	default:
		for _, broker := range c.brokers() {
			host, port, err := net.SplitHostPort(broker)
			if n, portErr := strconv.ParseUint(port, 10, 16); err != nil || host == "" || portErr != nil || n == 0 {
				c.fail("url", fmt.Sprintf("broker %q is not HOST:PORT", broker), "write it as in localhost:9092")
			}
		}
	}
}

func (c *engineChecks) brokers() []string {
	_, hosts, _ := strings.Cut(c.URL, "://")
	return strings.Split(strings.TrimSuffix(hosts, "/"), ",")
}

// sasl checks that what is said about who is there belongs together.
func (c *engineChecks) sasl() {
	token := c.SASL == "oauthbearer"
	known := slices.Contains([]string{"", "plain", "scram-sha-256", "scram-sha-512", "oauthbearer"}, c.SASL)
	for _, s := range []struct {
		name, value string
		fits        bool
		when        string
	}{
		{"sasl", c.SASL, known, "plain, scram-sha-256, scram-sha-512 or oauthbearer"},
		{"user", c.User, c.SASL != "" && (!token || c.TokenURL != ""), "sasl: plain or scram, or of oauthbearer with token_url"},
		{"password", c.Password, c.SASL != "" && (!token || c.TokenURL != ""), "sasl: plain or scram, or of oauthbearer with token_url"},
		{"password_file", c.PasswordFile, c.SASL != "" && (!token || c.TokenURL != ""), "sasl: plain or scram, or of oauthbearer with token_url"},
		{"token", c.Token, token, "sasl: oauthbearer"},
		{"token_file", c.TokenFile, token && c.TokenURL == "", "sasl: oauthbearer without token_url"},
		{"token_url", c.TokenURL, token, "sasl: oauthbearer"},
		{"scope", c.Scope, token && c.TokenURL != "", "sasl: oauthbearer with token_url"},
	} {
		switch {
		case s.value == "" || s.fits:
		case s.name == "sasl":
			c.fail(s.name, fmt.Sprintf("unknown SASL mechanism %q", s.value), "use "+s.when)
		default:
			c.fail(s.name, "it says nothing here", "it is of "+s.when)
		}
	}
	if u, err := url.Parse(c.TokenURL); c.TokenURL != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil) {
		c.fail("token_url", "it is no address of tokens", "write https://HOST/PATH, and user and password apart from it")
	}
}

// options returns the options of a log. It reads the files that are named, and
// the environment.
func (e *engine) options() (kafka.Options, afterbay.Errors) {
	c := &engineChecks{Engine: &e.Engine}
	o := kafka.Options{
		Brokers: c.brokers(), ClientID: e.ClientID, Rack: e.Rack, Replication: e.ReplicationFactor, ServerGroups: e.GroupProtocol == "consumer",
		SASL: kafka.SASL{Mechanism: strings.ToUpper(e.SASL)},
	}
	if strings.HasPrefix(e.URL, "kafka+tls://") {
		o.TLS = c.certificates()
	}
	switch e.SASL {
	case "":
	case "oauthbearer":
		e.bearer(c, &o)
	default:
		o.SASL.User, o.SASL.Password = e.user(c), e.password(c)
	}
	return o, c.found
}

// certificates reads those of TLS. Without ca the system's are trusted.
func (c *engineChecks) certificates() *tls.Config {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		text, err := os.ReadFile(c.CA)
		t.RootCAs = x509.NewCertPool()
		switch {
		case err != nil:
			c.fail("ca", err.Error(), "name a file that can be read")
		case !t.RootCAs.AppendCertsFromPEM(text):
			c.fail("ca", c.CA+" holds no certificate in PEM", "name the file of the certificates to trust")
		}
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			c.fail("cert", err.Error(), "name files in PEM, of a certificate and of its key")
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t
}

// first returns what flag, environment and file say, the first that says
// anything: settings of a flag stand in its URL.
func (e *engine) first(setting, name string) string {
	if e.place == nil {
		return cmp.Or(setting, e.env(name))
	}
	return cmp.Or(e.env(name), setting)
}

func (e *engine) user(c *engineChecks) string {
	user := e.first(e.User, envUser)
	if user == "" {
		c.fail("user", e.SASL+" without a user", "name one with `user`, or export "+envUser)
	}
	return user
}

func (e *engine) password(c *engineChecks) string {
	password, err := e.secret(e.Password, e.PasswordFile, envPassword)
	switch {
	case err != nil:
		c.fail("password_file", err.Error(), "name a file that can be read")
	case password == "":
		c.fail("sasl", e.SASL+" without a password", "export "+envPassword+", or name a file of it with `password_file`")
	}
	return password
}

// secret returns what the environment says, a variable that the file names or
// a file, in the order of first; of a file, without the end of its line.
func (e *engine) secret(value, file, env string) (string, error) {
	if secret := e.first(value, env); secret != "" && (file == "" || e.place != nil) {
		return secret, nil
	}
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	return strings.TrimRight(string(text), "\r\n"), err
}

// bearer sets where tokens come from: each connection asks anew.
func (e *engine) bearer(c *engineChecks, o *kafka.Options) {
	o.SASL.Token = func(context.Context) (string, error) { return e.secret(e.Token, e.TokenFile, envToken) }
	if e.TokenURL != "" && e.first(e.Token, envToken) == "" {
		e.user(c) // to see that there are both
		e.password(c)
		o.SASL.Token = newGrant(e).token
		return
	}
	switch token, err := o.SASL.Token(context.Background()); {
	case err != nil:
		c.fail("token_file", err.Error(), "name a file that can be read")
	case token == "":
		c.fail("sasl", "oauthbearer without a token", "export "+envToken+", or name a file of it with `token_file`, or who gives them with `token_url`")
	}
}
