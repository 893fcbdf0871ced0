package procfs

import (
	"os"
	"testing"
	"time"
)

func TestOfThisProcess(t *testing.T) {
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; {
		if used, err := CPU(os.Getpid()); err != nil || time.Now().After(end) {
			t.Fatalf("it used no CPU in a minute: %v, %v", used, err)
		} else if used > before {
			break
		}
	}
	now, err := Memory(os.Getpid(), "VmRSS")
	most, wrong := Memory(os.Getpid(), "VmHWM")
	if err != nil || wrong != nil || now < 1<<20 || most < now/2 {
		t.Errorf("%d bytes now, %d at most, %v, %v", now, most, err, wrong)
	}
	if _, err := Memory(os.Getpid(), "VmNone"); err == nil {
		t.Error("it has a size that there is not")
	}
	if _, err := CPU(1 << 30); err == nil {
		t.Error("a process that is not there used CPU")
	}
}
