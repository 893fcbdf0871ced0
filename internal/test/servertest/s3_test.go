package servertest

import (
	"net/http"
	"strings"
	"testing"
)

func TestS3RefusesWrongSignatures(t *testing.T) {
	s := S3(t)
	for _, method := range []string{http.MethodGet, http.MethodPut} {
		request, err := http.NewRequestWithContext(t.Context(), method, s.URL+"/bucket/key", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Amz-Date", "20260101T000000Z")
		request.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
		request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+s.AccessKey+"/20260101/"+s.Region+
			"/s3/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature="+strings.Repeat("0", 64))
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s", method, response.Status)
		}
	}
}
