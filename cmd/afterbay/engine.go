package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/stream/kafka"
)

// engineFlags say which log a command works on.
type engineFlags struct {
	Engine string `help:"Work on Apache Kafka in place of a data directory: kafka://HOST:PORT[,HOST:PORT...], or kafka+tls://..., with settings behind a question mark. Passwords come from the environment or files." env:"AFTERBAY_ENGINE" placeholder:"URL"`
}

// Where secrets come from, apart from files that the URL names.
const (
	envUser     = "AFTERBAY_KAFKA_USER"
	envPassword = "AFTERBAY_KAFKA_PASSWORD"
	envToken    = "AFTERBAY_KAFKA_TOKEN"
)

// engineSettings are what may stand behind the question mark of the URL.
var engineSettings = map[string]func(e *engineURL, value string) error{
	"ca":            func(e *engineURL, value string) error { return e.tls(&e.ca, value) },
	"cert":          func(e *engineURL, value string) error { return e.tls(&e.cert, value) },
	"key":           func(e *engineURL, value string) error { return e.tls(&e.key, value) },
	"sasl":          func(e *engineURL, value string) error { e.SASL.Mechanism = strings.ToUpper(value); return nil },
	"user":          func(e *engineURL, value string) error { e.SASL.User = value; return nil },
	"password_file": func(e *engineURL, value string) error { e.passwordFile = value; return nil },
	"token_file":    func(e *engineURL, value string) error { e.tokenFile = value; return nil },
	"client_id":     func(e *engineURL, value string) error { e.ClientID = value; return nil },
	"rack":          func(e *engineURL, value string) error { e.Rack = value; return nil },
	"groups": func(e *engineURL, value string) error {
		e.ServerGroups = value == "server"
		if value != "server" && value != "classic" {
			return fmt.Errorf("groups=%s: use classic, where the members assign partitions, or server, where the brokers do (Kafka 4.0)", value)
		}
		return nil
	},
	"replication": func(e *engineURL, value string) (err error) {
		if e.Replication, err = strconv.Atoi(value); err != nil || e.Replication < 1 {
			return fmt.Errorf("replication=%s: use the number of copies of topics that are made, 1 or more", value)
		}
		return nil
	},
}

// engineURL is a URL of --engine on its way to options.
type engineURL struct {
	kafka.Options
	secure                  bool
	ca, cert, key           string
	passwordFile, tokenFile string
	getenv                  func(string) string
}

func (e *engineURL) tls(setting *string, value string) error {
	if !e.secure {
		return errors.New("ca, cert and key are of kafka+tls://")
	}
	*setting = value
	return nil
}

// parseEngine reads the URL of an engine, and the files that it names.
func parseEngine(text string, getenv func(string) string) (kafka.Options, error) {
	e := &engineURL{getenv: getenv}
	scheme, rest, _ := strings.Cut(text, "://")
	if e.secure = scheme == "kafka+tls"; !e.secure && scheme != "kafka" {
		return e.Options, errors.New("use kafka://HOST:PORT, or kafka+tls://HOST:PORT")
	}
	hosts, query, _ := strings.Cut(rest, "?")
	if err := e.hosts(hosts); err != nil {
		return e.Options, err
	}
	settings, err := url.ParseQuery(query)
	if err != nil {
		return e.Options, fmt.Errorf("read the settings: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		set, ok := engineSettings[name]
		switch values := settings[name]; {
		case !ok:
			return e.Options, fmt.Errorf("unknown setting %q: there are %s", name, strings.Join(slices.Sorted(maps.Keys(engineSettings)), ", "))
		case len(values) > 1 || values[0] == "":
			return e.Options, fmt.Errorf("setting %s needs one value", name)
		default:
			if err := set(e, values[0]); err != nil {
				return e.Options, err
			}
		}
	}
	if err := errors.Join(e.certificates(), e.secrets()); err != nil {
		return e.Options, err
	}
	return e.Options, e.Options.Validate()
}

func (e *engineURL) hosts(text string) error {
	if strings.Contains(text, "@") {
		return fmt.Errorf("a URL is no place for a user and a password: use the settings sasl and user, and %s or the setting password_file", envPassword)
	}
	text = strings.TrimSuffix(text, "/")
	if text == "" || strings.Contains(text, "/") {
		return errors.New("name the brokers as HOST:PORT,HOST:PORT and nothing behind them but ?SETTING=VALUE&SETTING=VALUE")
	}
	for _, broker := range strings.Split(text, ",") {
		host, port, err := net.SplitHostPort(broker)
		if n, portErr := strconv.ParseUint(port, 10, 16); err != nil || host == "" || portErr != nil || n == 0 {
			return fmt.Errorf("broker %q is not HOST:PORT, as in localhost:9092", broker)
		}
		e.Brokers = append(e.Brokers, broker)
	}
	return nil
}

// certificates reads those of TLS. Without ca the system's are trusted.
func (e *engineURL) certificates() error {
	if !e.secure {
		return nil
	}
	e.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if e.ca != "" {
		text, err := os.ReadFile(e.ca)
		if err != nil {
			return fmt.Errorf("setting ca: %w", err)
		}
		e.TLS.RootCAs = x509.NewCertPool()
		if !e.TLS.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("setting ca: %s holds no certificate in PEM", e.ca)
		}
	}
	if (e.cert == "") != (e.key == "") {
		return errors.New("cert and key belong together")
	}
	if e.cert != "" {
		pair, err := tls.LoadX509KeyPair(e.cert, e.key)
		if err != nil {
			return fmt.Errorf("settings cert and key: %w", err)
		}
		e.TLS.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// secrets reads what SASL needs, and checks that nothing is left over.
func (e *engineURL) secrets() error {
	s := &e.SASL
	if s.Mechanism == "" {
		if s.User != "" || e.passwordFile != "" || e.tokenFile != "" {
			return errors.New("user, password_file and token_file need the setting sasl: plain, scram-sha-256, scram-sha-512 or oauthbearer")
		}
		return nil
	}
	if s.Mechanism == "OAUTHBEARER" {
		if s.User != "" || e.passwordFile != "" {
			return errors.New("sasl=oauthbearer takes a token, no user and password_file")
		}
		if e.tokenFile == "" && e.getenv(envToken) == "" {
			return fmt.Errorf("sasl=oauthbearer needs %s, or the setting token_file", envToken)
		}
		s.Token = func(context.Context) (string, error) { return secret(e.tokenFile, e.getenv(envToken)) }
		_, err := s.Token(context.Background())
		return err
	}
	if e.tokenFile != "" {
		return errors.New("token_file is of sasl=oauthbearer")
	}
	s.User = cmp.Or(s.User, e.getenv(envUser))
	var err error
	if s.Password, err = secret(e.passwordFile, e.getenv(envPassword)); err == nil && s.Password == "" {
		err = fmt.Errorf("sasl=%s needs %s, or the setting password_file", strings.ToLower(s.Mechanism), envPassword)
	}
	return err
}

// secret returns what a file holds, without the end of its line, or what the
// environment says where no file is named.
func secret(file, env string) (string, error) {
	if file == "" {
		return env, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read a secret: %w", err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// kafkaDir is where a process keeps what speeds up restarts on Kafka. It is
// beside what an embedded log keeps in the data directory.
func kafkaDir(data string) string { return filepath.Join(data, "kafka") }

// openKafka opens the log that --engine names. complete adds to its options.
func (a *app) openKafka(engine string, complete func(*kafka.Options)) (*kafka.Log, error) {
	options, err := parseEngine(engine, os.Getenv)
	if err != nil {
		return nil, usage("--engine: %w", err)
	}
	if options.SASL.Mechanism == "PLAIN" && options.TLS == nil {
		a.log.Warn("the password goes to the brokers in plain text: use kafka+tls:// or scram-sha-512")
	}
	options.Logger = a.log
	complete(&options)
	log, err := kafka.Open(a.ctx, options)
	switch {
	case err == nil:
		return log, nil
	case errors.Is(err, kafka.ErrLocked):
		return nil, &exitError{exitLocked, fmt.Errorf("%w: end that process, or give this one a folder of its own with --data", err)}
	case a.ctx.Err() != nil:
		return nil, err
	}
	return nil, &exitError{exitEngine, err}
}

// deliveryOf is what a pipeline says about its outputs, as Kafka does it.
func deliveryOf(d afterbay.Delivery) kafka.Delivery {
	switch d {
	case afterbay.AtLeastOnce:
		return kafka.AtLeastOnce
	case afterbay.AtMostOnce:
		return kafka.AtMostOnce
	}
	return kafka.ExactlyOnce
}
