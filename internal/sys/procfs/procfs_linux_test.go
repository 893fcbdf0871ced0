package procfs

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
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
	if err := ForgetPeak(os.Getpid()); err != nil {
		t.Error(err)
	}
	if _, err := CPU(1 << 30); err == nil {
		t.Error("a process that is not there used CPU")
	}
}

func TestMemoryOfAProcessIsWithThoseItStarted(t *testing.T) {
	command := exec.CommandContext(t.Context(), "sh", "-c", "sleep 60 & echo $!; read wait; kill $!")
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	sleeps, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; { // until the child is what it will be
		one := Resident(sleeps)
		alone, err := Memory(command.Process.Pid, "VmRSS")
		both := Resident(command.Process.Pid)
		if err == nil && one > 0 && both > one && both > alone {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d bytes with the child's %d, %d alone, %v", both, one, alone, err)
		}
	}
	if own := Resident(os.Getpid()); own < 1e6 {
		t.Errorf("this process holds %d bytes", own)
	}
	if err := errors.Join(in.Close(), command.Wait()); err != nil {
		t.Log(err) // of kill
	}
}
