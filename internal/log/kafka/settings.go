package kafka

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

	"github.com/afterbay/afterbay/internal/spec"
)

// Settings describes how to reach a cluster, in the YAML of `engine:` in pipeline and gateway files
// and in the cluster of a sink.
type Settings struct {
	URL               string // kafka://HOST:PORT[,HOST:PORT...], kafka+tls:// for TLS, or embedded, the log of a data directory; "" is embedded
	CA                string // a PEM file of certificates to trust; "" is those of the system
	Cert              string // a PEM file of the client's certificate; "" is none
	Key               string // a PEM file of the client's key; "" is none
	SASL              string // SASL mechanism: plain, scram-sha-256, scram-sha-512 or oauthbearer; "" is none
	User              string // user for plain and scram; for oauthbearer the client id for TokenURL; "" is AFTERBAY_KAFKA_USER
	Password          string // password of the user; "" is AFTERBAY_KAFKA_PASSWORD
	PasswordFile      string // a file with the password; "" is AFTERBAY_KAFKA_PASSWORD
	Token             string // token for oauthbearer; "" is AFTERBAY_KAFKA_TOKEN
	TokenFile         string // a file with the token, read again for each connection; "" is AFTERBAY_KAFKA_TOKEN
	TokenURL          string // OAuth 2.0 endpoint that gives tokens for client credentials, which are the user and the password; "" is none
	Scope             string // scope of the tokens that TokenURL gives; "" is none
	ClientID          string // shown in the brokers' logs and quotas; "" is afterbay
	Rack              string // rack of this client: it reads from a replica in the same rack if there is one; "" is none
	GroupProtocol     string // classic (default), where the members assign partitions, or consumer, where the brokers do (KIP-848, Kafka 4.0)
	ReplicationFactor int    // replicas of the topics that the log creates; 0 is the brokers' default
}

func settingsURL(e *Settings) *string { return &e.URL }

var settingsFields = []spec.Field[Settings]{
	{Name: "url", Affects: spec.Nothing, Required: true, Form: spec.Into(settingsURL, spec.ReadURL), Example: "kafka+tls://broker-1:9093"},
	{Name: "ca", Affects: spec.Nothing, Form: spec.Into(func(e *Settings) *string { return &e.CA }, spec.ReadPath), Example: "ca.pem"},
	{Name: "cert", Affects: spec.Nothing, Form: spec.Into(func(e *Settings) *string { return &e.Cert }, spec.ReadPath), Example: "client.pem"},
	{Name: "key", Affects: spec.Nothing, Form: spec.Into(func(e *Settings) *string { return &e.Key }, spec.ReadPath), Example: "client.key"},
	{Name: "sasl", Affects: spec.Nothing, Form: spec.Into(func(e *Settings) *string { return &e.SASL }, spec.Choice[string]("plain", "scram-sha-256", "scram-sha-512", "oauthbearer")),
		Example: "scram-sha-512", Help: "SASL mechanism"},
	{Name: "user", Affects: spec.Nothing, Form: spec.Into(func(e *Settings) *string { return &e.User }, spec.ReadName), Example: "fraud"},
	{Name: "password", Affects: spec.Nothing, Or: "password_file", Form: spec.Into(func(e *Settings) *string { return &e.Password }, spec.Secret("password_file")), Example: "${KAFKA_PASSWORD}"},
	{Name: "password_file", Affects: spec.Nothing, Form: spec.Into(func(e *Settings) *string { return &e.PasswordFile }, spec.ReadPath), Example: "/run/secrets/kafka"},
	{Name: "token", Affects: spec.Nothing, Or: "token_file", Form: spec.Into(func(e *Settings) *string { return &e.Token }, spec.Secret("token_file")), Example: "${KAFKA_TOKEN}"},
	{Name: "token_file", Affects: spec.Nothing, Or: "token_url", Form: spec.Into(func(e *Settings) *string { return &e.TokenFile }, spec.ReadPath), Example: "/run/secrets/token"},
	{Name: "token_url", Affects: spec.Nothing, Or: "token", Form: spec.Into(func(e *Settings) *string { return &e.TokenURL }, spec.ReadURL), Example: "https://login.example.com/oauth2/token"},
	{Name: "scope", Affects: spec.Nothing, Form: spec.Into(func(e *Settings) *string { return &e.Scope }, spec.ReadName), Example: "kafka"},
	{Name: "client_id", Affects: spec.Nothing, Form: spec.Into(func(e *Settings) *string { return &e.ClientID }, spec.ReadName), Example: "fraud-1"},
	{Name: "rack", Affects: spec.Nothing, Form: spec.Into(func(e *Settings) *string { return &e.Rack }, spec.ReadName), Example: "eu-west-1a"},
	{Name: "group_protocol", Affects: spec.Nothing, Form: spec.Into(func(e *Settings) *string { return &e.GroupProtocol }, spec.Choice[string]("classic", "consumer")), Example: "consumer",
		Help: "the assignor of partitions: the members (classic), or the brokers (consumer: KIP-848, Kafka 4.0)"},
	{Name: "replication_factor", Affects: spec.Nothing, Form: spec.Into(func(e *Settings) *int { return &e.ReplicationFactor }, spec.Whole[int](1, 1<<15-1)), Example: "3"},
}

// clusterFields lists the settings that apply to a cluster that is only written to.
var clusterFields = slices.DeleteFunc(slices.Clone(settingsFields), func(w spec.Field[Settings]) bool {
	return slices.Contains([]string{"rack", "group_protocol", "replication_factor"}, w.Name)
})

// ReadCluster reads the settings of a cluster that is only written to.
var ReadCluster = spec.OneOf("write kafka://HOST:PORT, or `{url: ...}`", spec.Scalar, spec.Into(settingsURL, spec.ReadURL), spec.Mapping, spec.MappingOf(clusterFields))

// Environment variables with the default credentials.
const (
	EnvUser     = "AFTERBAY_KAFKA_USER"
	EnvPassword = "AFTERBAY_KAFKA_PASSWORD"
	EnvToken    = "AFTERBAY_KAFKA_TOKEN"
)

// urlSettings lists the settings that may follow the question mark of a URL: the fields of
// `engine:` without the secrets, since other users can read command lines.
var urlSettings = map[string]func(e *Settings, value string) bool{
	"ca":             setText(func(e *Settings) *string { return &e.CA }),
	"cert":           setText(func(e *Settings) *string { return &e.Cert }),
	"key":            setText(func(e *Settings) *string { return &e.Key }),
	"sasl":           setText(func(e *Settings) *string { return &e.SASL }),
	"user":           setText(func(e *Settings) *string { return &e.User }),
	"password_file":  setText(func(e *Settings) *string { return &e.PasswordFile }),
	"token_file":     setText(func(e *Settings) *string { return &e.TokenFile }),
	"token_url":      setText(func(e *Settings) *string { return &e.TokenURL }),
	"scope":          setText(func(e *Settings) *string { return &e.Scope }),
	"client_id":      setText(func(e *Settings) *string { return &e.ClientID }),
	"rack":           setText(func(e *Settings) *string { return &e.Rack }),
	"group_protocol": setText(func(e *Settings) *string { return &e.GroupProtocol }),
	"replication_factor": func(e *Settings, value string) bool {
		n, err := strconv.ParseInt(value, 10, 16)
		e.ReplicationFactor = int(n)
		return err == nil && n > 0
	},
}

func setText(get func(*Settings) *string) func(*Settings, string) bool {
	return func(e *Settings, value string) bool { *get(e) = value; return value != "" }
}

// ParseSettings reads a URL with settings after a question mark. The path of a problem is the field
// in Settings.
func ParseSettings(text string) (e Settings, found spec.Problems) {
	address, query, _ := strings.Cut(text, "?")
	e.URL = address
	settings, err := url.ParseQuery(query)
	if err != nil {
		return e, append(found, &spec.Problem{Path: "url", Message: "the settings cannot be read: " + err.Error(), Hint: "write SETTING=VALUE&SETTING=VALUE behind the question mark"})
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		set, ok := urlSettings[name]
		switch values := settings[name]; {
		case renamed(name, values[0]) != nil:
			found = append(found, renamed(name, values[0]))
		case !ok:
			found = append(found, &spec.Problem{Path: name, Message: "unknown setting", Hint: "there are " + strings.Join(slices.Sorted(maps.Keys(urlSettings)), ", ")})
		case len(values) > 1 || !set(&e, values[0]):
			found = append(found, &spec.Problem{Path: name, Message: fmt.Sprintf("%q is not one value", values), Hint: "write one, for replication_factor a number from 1"})
		}
	}
	e.SASL = strings.ToLower(e.SASL)
	return e, found
}

// renamed returns the problem of a setting with an old name or an old value, or nil.
func renamed(name, value string) *spec.Problem {
	return cmp.Or(spec.RenamedProblem("engine", name), spec.RenamedProblem("engine", name+": "+value))
}

// settingsCheck collects the problems of settings.
type settingsCheck struct {
	*Settings
	found spec.Problems
}

func (c *settingsCheck) fail(setting, message, hint string) {
	c.found = append(c.found, &spec.Problem{Path: setting, Message: message, Hint: hint})
}

// Check returns all problems of the settings. It reads neither files nor the environment.
func (e Settings) Check() spec.Problems {
	c := &settingsCheck{Settings: &e}
	c.address()
	if secure := strings.HasPrefix(e.URL, "kafka+tls://"); !secure {
		for _, s := range []struct{ name, value string }{{"ca", e.CA}, {"cert", e.Cert}, {"key", e.Key}} {
			if s.value != "" {
				c.fail(s.name, "certificates need an encrypted connection", "write kafka+tls:// in the URL, or remove it")
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
func (c *settingsCheck) address() {
	scheme, hosts, _ := strings.Cut(c.URL, "://")
	switch {
	case scheme != "kafka" && scheme != "kafka+tls":
		c.fail("url", fmt.Sprintf("%q is not a cluster", scheme), "use kafka://HOST:PORT or kafka+tls://HOST:PORT")
	case strings.Contains(hosts, "@"):
		c.fail("url", "the URL has a user or a password", "use the settings sasl and user, and "+EnvPassword+" or the setting password_file")
	case strings.Contains(hosts, "?"):
		c.fail("url", "settings behind the URL", "write each as a field below `engine`, beside `url`")
		_, query, _ := strings.Cut(hosts, "?")
		settings, _ := url.ParseQuery(query)
		for _, name := range slices.Sorted(maps.Keys(settings)) {
			if old := renamed(name, settings[name][0]); old != nil {
				c.fail("url", old.Message, old.Hint)
			}
		}
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

func (c *settingsCheck) brokers() []string {
	_, hosts, _ := strings.Cut(c.URL, "://")
	return strings.Split(strings.TrimSuffix(hosts, "/"), ",")
}

// sasl checks that the SASL settings are consistent.
func (c *settingsCheck) sasl() {
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
			c.fail(s.name, "it has no effect here", "it is of "+s.when)
		}
	}
	if u, err := url.Parse(c.TokenURL); c.TokenURL != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil) {
		c.fail("token_url", "it is not the URL of a token server", "write https://HOST/PATH, and user and password apart from it")
	}
}

// Environment reads environment variables.
type Environment struct {
	Get  func(name string) string
	Last bool // a setting overrides a variable, for example one from the command line
}

// credentials combines settings and an environment.
type credentials struct {
	*Settings
	env Environment
}

// Options returns the options of a log. It reads the files that the settings name, and the
// environment.
func (e Settings) Options(env Environment) (Options, spec.Problems) {
	return (&credentials{&e, env}).options()
}

func (e *credentials) options() (Options, spec.Problems) {
	c := &settingsCheck{Settings: e.Settings}
	o := Options{
		Brokers: c.brokers(), ClientID: e.ClientID, Rack: e.Rack, Replication: e.ReplicationFactor, ServerGroups: e.GroupProtocol == "consumer",
		SASL: SASL{Mechanism: strings.ToUpper(e.SASL)},
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

// certificates reads the TLS certificates. Without ca, the client trusts those of the system.
func (c *settingsCheck) certificates() *tls.Config {
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

// first returns the variable or the setting, the first that is set. The setting comes first if
// env.Last is true.
func (e *credentials) first(setting, name string) string {
	if e.env.Last {
		return cmp.Or(setting, e.env.Get(name))
	}
	return cmp.Or(e.env.Get(name), setting)
}

func (e *credentials) user(c *settingsCheck) string {
	user := e.first(e.User, EnvUser)
	if user == "" {
		c.fail("user", e.SASL+" without a user", "name one with `user`, or export "+EnvUser)
	}
	return user
}

func (e *credentials) password(c *settingsCheck) string {
	password, err := e.secret(e.Password, e.PasswordFile, EnvPassword)
	switch {
	case err != nil:
		c.fail("password_file", err.Error(), "name a file that can be read")
	case password == "":
		c.fail("sasl", e.SASL+" without a password", "export "+EnvPassword+", or name a file of it with `password_file`")
	}
	return password
}

// secret returns a secret from the environment variable env, the setting value or a file. A
// variable or value comes before the file, unless env.Last is true. secret removes the line end of
// a file.
func (e *credentials) secret(value, file, env string) (string, error) {
	if secret := e.first(value, env); secret != "" && (file == "" || !e.env.Last) {
		return secret, nil
	}
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	return strings.TrimRight(string(text), "\r\n"), err
}

// bearer sets the source of tokens. Each connection asks it for a token.
func (e *credentials) bearer(c *settingsCheck, o *Options) {
	o.SASL.Token = func(context.Context) (string, error) { return e.secret(e.Token, e.TokenFile, EnvToken) }
	if e.TokenURL != "" && e.first(e.Token, EnvToken) == "" {
		e.user(c) // checks that both are set
		e.password(c)
		o.SASL.Token = newGrant(e).token
		return
	}
	switch token, err := o.SASL.Token(context.Background()); {
	case err != nil:
		c.fail("token_file", err.Error(), "name a file that can be read")
	case token == "":
		c.fail("sasl", "oauthbearer without a token", "export "+EnvToken+", or name a token file with `token_file`, or a token server with `token_url`")
	}
}
