package s3

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// readAgain is how long the content of a credentials file is cached.
const readAgain = 10 * time.Second

// cached is the cached content of a credentials file.
type cached struct {
	mu    sync.Mutex // guards the fields below
	found aws.Credentials
	until time.Time
}

func (c *cached) read(o *Options) (aws.Credentials, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := o.Now()
	if now.Before(c.until) {
		return c.found, nil
	}
	found, err := readFile(o)
	if err != nil {
		return found, err
	}
	c.found, c.until = found, now.Add(readAgain)
	return found, nil
}

func readFile(o *Options) (found aws.Credentials, err error) {
	path := cmp.Or(o.Credentials, o.Getenv("AWS_SHARED_CREDENTIALS_FILE"))
	if path == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return found, fmt.Errorf("credentials of S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: %w", err)
		}
		path = filepath.Join(home, ".aws", "credentials")
	}
	profile := cmp.Or(o.Profile, o.Getenv("AWS_PROFILE"), "default")
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return found, fmt.Errorf("credentials of S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write %s: %w", path, err)
	} else if err != nil {
		return found, fmt.Errorf("credentials of S3: %w", err)
	}
	defer file.Close()
	section, lines := "", bufio.NewScanner(file)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			section = strings.TrimSpace(strings.Trim(line, "[]"))
			continue
		}
		name, text, _ := strings.Cut(line, "=")
		if text = strings.TrimSpace(text); section != profile {
			continue
		}
		switch strings.TrimSpace(name) {
		case "aws_access_key_id":
			found.AccessKeyID = text
		case "aws_secret_access_key":
			found.SecretAccessKey = text
		case "aws_session_token":
			found.SessionToken = text
		}
	}
	if err := lines.Err(); err != nil {
		return found, fmt.Errorf("credentials of S3: read %s: %w", path, err)
	}
	if found.AccessKeyID == "" || found.SecretAccessKey == "" {
		return found, fmt.Errorf("credentials of S3: %s has no aws_access_key_id and aws_secret_access_key in [%s]", path, profile)
	}
	return found, nil
}
