package kafkatest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// steps runs scripts/kafka in one folder.
type steps struct {
	t      *testing.T
	script string
	dir    string
}

func newSteps(t *testing.T) *steps {
	Need(t)
	script, err := findScript()
	if err != nil {
		t.Fatal(err)
	}
	s := &steps{t: t, script: script, dir: filepath.Join(t.TempDir(), "a folder")}
	t.Cleanup(func() { _ = exec.Command(script, "stop", "--dir", s.dir).Run() })
	return s
}

// do runs a command, which has to succeed or fail and to say something.
func (s *steps) do(want string, succeeds bool, command string, args ...string) {
	s.t.Helper()
	begin := time.Now()
	c := exec.CommandContext(s.t.Context(), s.script, append([]string{command, "--dir", s.dir}, args...)...)
	c.Env = append(os.Environ(), "AFTERBAY_KAFKA_DIR=", "AFTERBAY_KAFKA_PORT=")
	output, err := c.CombinedOutput()
	s.t.Logf("%s %s: %.1f s", command, strings.Join(args, " "), time.Since(begin).Seconds())
	if (err == nil) != succeeds || !strings.Contains(string(output), want) {
		s.t.Fatalf("%s %v: %v\n%swant %q", command, args, err, output, want)
	}
}

func TestScriptStartsTwiceAndStopsTwice(t *testing.T) {
	base, claim, err := claimPorts(1)
	if err != nil {
		t.Fatal(err)
	}
	defer claim.Close()
	port, address := strconv.Itoa(base), fmt.Sprint("127.0.0.1:", base)
	s := newSteps(t)
	s.do("no broker", false, "status")
	s.do("no broker", true, "stop")
	s.do("no broker", false, "topic", "--list")
	s.do("broker 1 started: "+address, true, "start", "--port", port, "--set", "num.partitions=7", "--jvm", "-XX:TieredStopAtLevel=1")
	s.do("broker 1 runs: "+address, true, "start", "--port", port)
	s.do("broker 1 runs: "+address, true, "status")
	s.do("Created topic t", true, "topic", "--create", "--topic", "t")
	s.do("PartitionCount: 7", true, "topic", "--describe", "--topic", "t")
	s.do("", true, "topic", "--delete", "--topic", "t")
	s.do("broker 1 stopped", true, "stop")
	s.do("no broker", true, "stop")
	s.do("broker 1 is stopped", false, "status")

	// Started without options it is what it was, unless its port is taken.
	taken, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s.do("port "+port+" of broker 1 is taken", false, "start")
	_ = taken.Close()
	s.do("broker 1 started: "+address, true, "start")
	s.do("num.partitions=7", true, "tool", "kafka.admin.ConfigCommand", "--entity-type", "brokers", "--entity-name", "1", "--describe", "--all")
	s.do("holds 1 brokers, not 3", false, "prepare", "--brokers", "3")
}

func TestScriptShowsWhyABrokerEnded(t *testing.T) {
	base, claim, err := claimPorts(1)
	if err != nil {
		t.Fatal(err)
	}
	defer claim.Close()
	newSteps(t).do("process.roles", false, "start", "--port", strconv.Itoa(base), "--set", "process.roles=nothing")
}

func TestScriptLeavesOtherProcessesAlone(t *testing.T) {
	s := newSteps(t)
	s.do("", true, "prepare")
	bystander := exec.CommandContext(t.Context(), "sleep", "60")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	id := filepath.Join(s.dir, "n1", "pid")
	if err := os.WriteFile(id, []byte(strconv.Itoa(bystander.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.do("no broker", true, "stop")
	s.do("broker 1 is stopped", false, "status")
	_ = bystander.Process.Kill()
	_ = bystander.Wait()
	if status := bystander.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Errorf("the process whose id was left in the file got %v", status.Signal())
	}
}

func TestScriptRefusesWhatItDoesNotKnow(t *testing.T) {
	s := newSteps(t)
	for want, args := range map[string][]string{
		"--brokers is 1 or 3":  {"--brokers", "2"},
		"--port is from 1":     {"--port", "x"},
		"--set is KEY=VALUE":   {"--set", "x"},
		"no option --zz":       {"--zz", "x"},
		"--port needs a value": {"--port"},
		"--clients needs":      {"--clients", "x"},
		"--clients is a file":  {"--secure", "--clients", "x"},
	} {
		s.do(want, false, "prepare", args...)
	}
}
