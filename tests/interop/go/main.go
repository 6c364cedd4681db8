// The official Go client, unmodified, told what to do by its arguments and answering by a file of one
// JSON object a line, so that the tests in Python decide what is right.
//
//	peer NAMESERVER PREFIX OUT
//	peer signed NAMESERVER TOPIC GROUP COUNT OUT [NAME SECRET]...
//	peer trace NAMESERVER TOPIC GROUP OUT    send and consume a message, noting it
//	peer answer NAMESERVER TOPIC GROUP OUT   answer how transactions ended, until it is killed
//
// The first runs every scenario at once. Each has a topic and groups of its own (PREFIX and its name; the topics
// are there when it starts) and writes a line for each thing that happened. A scenario that fails
// writes the event "failed", and the others go on. The second signs what it asks, see signed.go.
package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const (
	timeout   = 30 * time.Second  // of one request; a busy machine
	patience  = 120 * time.Second // of a scenario for what must come
	settling  = 1500 * time.Millisecond
	retries   = 2
	noTag     = ""
	asAString = "body %d"
)

// Peer is what scenarios share: where to connect, the prefix of names, and where to tell.
type Peer struct {
	nameserver primitive.NamesrvAddr
	prefix     string
	lock       sync.Mutex
	out        *os.File
}

func main() {
	if len(os.Args) > 7 && os.Args[1] == "signed" {
		rlog.SetLogLevel("error")
		if err := signed(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	arguments := os.Args[1:]
	command := ""
	if len(arguments) == 5 {
		command, arguments = arguments[0], arguments[1:]
	}
	if len(arguments) != 3+min(len(command), 1) {
		fmt.Fprintln(os.Stderr, "usage: peer NAMESERVER PREFIX OUT, or peer trace|answer NAMESERVER TOPIC GROUP OUT")
		os.Exit(2)
	}
	rlog.SetLogLevel("error")
	out, err := os.Create(arguments[len(arguments)-1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	peer := &Peer{nameserver: primitive.NamesrvAddr{arguments[0]}, prefix: arguments[1], out: out}
	switch command {
	case "":
		peer.show()
	case "trace":
		err = peer.trace(arguments[2])
	case "answer":
		err = peer.answer(arguments[2])
	default:
		err = fmt.Errorf("unknown command %s", command)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0) // the client leaves goroutines behind
}

// show runs every scenario to its end.
func (peer *Peer) show() {
	var open sync.WaitGroup
	for name, scenario := range map[string]func() error{
		"Sends":        peer.sends,
		"Ordered":      peer.ordered,
		"Broadcast":    peer.broadcast,
		"Retry":        peer.retry,
		"Poll":         peer.poll,
		"Pull":         peer.pull,
		"Transactions": peer.transactions,
		"Filtered":     peer.filtered,
	} {
		open.Add(1)
		go func(name string, scenario func() error) {
			defer open.Done()
			if err := scenario(); err != nil {
				peer.tell(name, "failed", map[string]any{"error": err.Error()})
				return
			}
			peer.tell(name, "finished", map[string]any{})
		}(name, scenario)
	}
	open.Wait()
}

// tell writes one line; it is in the file when tell returns.
func (peer *Peer) tell(scenario, event string, line map[string]any) {
	line["scenario"], line["event"], line["at_ms"] = scenario, event, time.Now().UnixMilli()
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	peer.lock.Lock()
	defer peer.lock.Unlock()
	if _, err := peer.out.Write(append(text, '\n')); err != nil {
		panic(err)
	}
}

func (peer *Peer) tellMessage(scenario, event string, message *primitive.MessageExt) {
	peer.tell(scenario, event, map[string]any{
		"topic":           message.Topic,
		"queue_id":        message.Queue.QueueId,
		"queue_offset":    message.QueueOffset,
		"id":              message.MsgId,
		"offset_id":       message.OffsetMsgId,
		"tag":             message.GetTags(),
		"keys":            message.GetKeys(),
		"reconsume_times": message.ReconsumeTimes,
		"properties":      message.GetProperties(),
		"body":            base64.StdEncoding.EncodeToString(message.Body),
	})
}

func (peer *Peer) tellSent(scenario string, numbers []int, sent *primitive.SendResult) {
	peer.tell(scenario, "sent", map[string]any{
		"numbers":      numbers,
		"status":       int(sent.Status),
		"ids":          sent.MsgID,
		"queue_id":     sent.MessageQueue.QueueId,
		"queue_offset": sent.QueueOffset,
	})
}

// message returns a message that carries its number in key and body.
func (peer *Peer) message(name string, tag string, number int) *primitive.Message {
	message := primitive.NewMessage(peer.prefix+name, []byte(fmt.Sprintf(asAString, number)))
	message.WithKeys([]string{fmt.Sprintf("key-%d", number)})
	if tag != noTag {
		message.WithTag(tag)
	}
	return message
}

// until waits for something that another goroutine brings about.
func until(holds func() bool, what string) error {
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %v for %s", patience, what)
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}
