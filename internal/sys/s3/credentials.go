package s3

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
)

const (
	readAgain       = 10 * time.Second // how long the variables and files of credentials are cached: the files may change
	renewBefore     = time.Minute      // before credentials expire
	retrieveTimeout = 10 * time.Second
)

// credentials finds the credentials of a client, and keeps them while they are valid.
type credentials struct {
	options *Options

	mu       sync.Mutex // guards the fields below
	provider aws.CredentialsProvider
	expiring bool      // the provider renews its credentials: it is kept
	until    time.Time // when another provider is read from variables and files
}

func (c *credentials) get(ctx context.Context) (aws.Credentials, error) {
	ctx, cancel := context.WithTimeout(ctx, retrieveTimeout)
	defer cancel()
	provider, err := c.read(ctx)
	if err != nil {
		return aws.Credentials{}, fmt.Errorf("credentials of S3: %w", err)
	}
	found, err := provider.Retrieve(ctx)
	if err != nil {
		return found, fmt.Errorf("credentials of S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, write ~/.aws/credentials, or give the machine a role: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expiring = found.CanExpire
	return found, nil
}

// read returns the provider that variables and files name. It sends no request.
func (c *credentials) read(ctx context.Context) (aws.CredentialsProvider, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.options.Now()
	if c.expiring || now.Before(c.until) {
		return c.provider, nil
	}
	provider, err := readProvider(ctx, c.options)
	if err == nil {
		c.provider, c.until = provider, now.Add(readAgain)
	}
	return provider, err
}

// readProvider returns the provider of the file that the options name, or else that of Amazon's own
// tools: the first of environment variables, web identity, shared files, container and machine.
func readProvider(ctx context.Context, o *Options) (aws.CredentialsProvider, error) {
	if o.Credentials != "" {
		return readFile(ctx, o)
	}
	with := []func(*config.LoadOptions) error{
		config.WithRegion(o.Region),
		config.WithCredentialsCacheOptions(func(cache *aws.CredentialsCacheOptions) { cache.ExpiryWindow = renewBefore }),
	}
	if o.Profile != "" {
		with = append(with, config.WithSharedConfigProfile(o.Profile))
	}
	loaded, err := config.LoadDefaultConfig(ctx, with...)
	return loaded.Credentials, err
}

// readFile reads the keys of a file.
func readFile(ctx context.Context, o *Options) (aws.CredentialsProvider, error) {
	path, profile := o.Credentials, cmp.Or(o.Profile, os.Getenv("AWS_PROFILE"), "default")
	file, err := os.Open(path) // the library takes a file that it cannot read as empty
	if err != nil {
		return nil, fmt.Errorf("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write %s: %w", path, err)
	}
	file.Close()
	shared, err := config.LoadSharedConfigProfile(ctx, profile, func(l *config.LoadSharedConfigOptions) {
		l.CredentialsFiles, l.ConfigFiles = []string{path}, []string{}
	})
	if err != nil || !shared.Credentials.HasKeys() {
		return nil, fmt.Errorf("%s has no aws_access_key_id and aws_secret_access_key in [%s]", path, profile)
	}
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return shared.Credentials, nil }), nil
}
