package scaffold

import (
	"fmt"
	"os"
	"regexp"

	"github.com/afterbay/afterbay/internal/event/registry"
	"github.com/afterbay/afterbay/internal/failure"
)

// Environment variables with the secrets of a schema registry. The pipeline file refers to them.
const (
	RegistryPassword = "AFTERBAY_SCHEMA_REGISTRY_PASSWORD"
	RegistryToken    = "AFTERBAY_SCHEMA_REGISTRY_TOKEN"
)

// Registry is a schema registry. Its secrets come from the environment.
type Registry struct {
	URL  string
	User string // user of basic authentication; "" uses a token or no authentication
}

// open returns the registry, or nil if r is nil.
func (r *Registry) open() (*registry.Registry, error) {
	if r == nil {
		return nil, nil
	}
	o := registry.Options{URL: r.URL, User: r.User}
	if r.User == "" {
		o.Token = os.Getenv(RegistryToken)
	} else if o.Password = os.Getenv(RegistryPassword); o.Password == "" {
		return nil, failure.Usage("--schema-registry-user: set %s to the password", RegistryPassword)
	}
	found, err := registry.New(o)
	if err != nil {
		return nil, failure.Usage("--schema-registry: %v", err)
	}
	return found, nil
}

// plainURL matches URLs that YAML reads as strings without quotes.
var plainURL = regexp.MustCompile(`^https?://[A-Za-z0-9.:/_-]+$`)

// written returns the form of the registry in the pipeline file.
func (r *Registry) written() string {
	url := r.URL
	if !plainURL.MatchString(url) {
		url = scalar(url)
	}
	switch {
	case r.User != "":
		return fmt.Sprintf("{url: %s, user: %s, password: '${%s}'}", url, scalar(r.User), RegistryPassword)
	case os.Getenv(RegistryToken) != "":
		return fmt.Sprintf("{url: %s, token: '${%s}'}", url, RegistryToken)
	}
	return url
}
