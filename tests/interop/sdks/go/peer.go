// The official SDK of RocketMQ 5 for Go under orders; what `../python/peer.py` says is true of it.
// It encrypts, and checks nothing.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const (
	limit     = 90 * time.Second
	invisible = 15 * time.Second
)

var endpoint string

func config(topic string) *rmq.Config {
	return &rmq.Config{
		Endpoint:      endpoint,
		ConsumerGroup: topic + "-group",
		Credentials:   &credentials.SessionCredentials{},
	}
}

func producer(topic string) (rmq.Producer, error) {
	checker := &rmq.TransactionChecker{
		Check: func(*rmq.MessageView) rmq.TransactionResolution { return rmq.COMMIT },
	}
	made, err := rmq.NewProducer(
		config(topic), rmq.WithTopics(topic), rmq.WithTransactionChecker(checker))
	if err != nil {
		return nil, err
	}
	return made, made.Start()
}

func simple(topic string, wanted *rmq.FilterExpression) (rmq.SimpleConsumer, error) {
	expressions := map[string]*rmq.FilterExpression{topic: wanted}
	made, err := rmq.NewSimpleConsumer(config(topic),
		rmq.WithAwaitDuration(5*time.Second), rmq.WithSubscriptionExpressions(expressions))
	if err != nil {
		return nil, err
	}
	return made, made.Start()
}

func both(topic string, wanted *rmq.FilterExpression) (rmq.Producer, rmq.SimpleConsumer, func()) {
	consumer, err := simple(topic, wanted)
	must(err)
	sender, err := producer(topic)
	must(err)
	return sender, consumer, func() {
		_ = sender.GracefulStop()
		_ = consumer.GracefulStop()
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func message(topic, body string) *rmq.Message {
	return &rmq.Message{Topic: topic, Body: []byte(body)}
}

func send(sender rmq.Producer, sent *rmq.Message) *rmq.SendReceipt {
	receipts, err := sender.Send(context.Background(), sent)
	must(err)
	return receipts[0]
}

func received(consumer rmq.SimpleConsumer, count int, wait time.Duration) []*rmq.MessageView {
	var found []*rmq.MessageView
	deadline := time.Now().Add(wait)
	for len(found) < count && time.Now().Before(deadline) {
		views, _ := consumer.Receive(context.Background(), 32, invisible)
		for _, one := range views {
			must(consumer.Ack(context.Background(), one))
			found = append(found, one)
		}
	}
	return found
}

func bodies(found []*rmq.MessageView) []string {
	said := []string{}
	for _, one := range found {
		said = append(said, string(one.GetBody()))
	}
	sort.Strings(said)
	return said
}

func once(found []*rmq.MessageView, get func(*rmq.MessageView) string) []string {
	known := map[string]bool{}
	for _, one := range found {
		known[get(one)] = true
	}
	said := []string{}
	for one := range known {
		said = append(said, one)
	}
	sort.Strings(said)
	return said
}

func normal(topic string) any {
	sender, consumer, stop := both(topic, rmq.SUB_ALL)
	defer stop()
	ids := []string{}
	for number := 0; number < 10; number++ {
		sent := message(topic, fmt.Sprint("m", number))
		sent.SetTag("A")
		sent.SetKeys(fmt.Sprint("k", number))
		sent.AddProperty("n", "1")
		ids = append(ids, send(sender, sent).MessageID)
	}
	sort.Strings(ids)
	found := received(consumer, 10, limit)
	got := once(found, func(one *rmq.MessageView) string { return one.GetMessageId() })
	return map[string]any{
		"bodies":     bodies(found),
		"ids":        strings.Join(ids, " ") == strings.Join(got, " "),
		"keys":       once(found, func(one *rmq.MessageView) string { return one.GetKeys()[0] }),
		"tags":       once(found, func(one *rmq.MessageView) string { return *one.GetTag() }),
		"properties": once(found, func(one *rmq.MessageView) string { return one.GetProperties()["n"] }),
		"attempts": once(found, func(one *rmq.MessageView) string {
			return strconv.Itoa(int(one.GetDeliveryAttempt()))
		}),
	}
}

func delay(topic string) any {
	sender, consumer, stop := both(topic, rmq.SUB_ALL)
	defer stop()
	due := time.Now().Truncate(time.Second).Add(4 * time.Second)
	sent := message(topic, "later")
	sent.SetDelayTimestamp(due)
	send(sender, sent)
	found := received(consumer, 1, limit)
	inTime := time.Now().After(due.Add(-100 * time.Millisecond))
	return map[string]any{"bodies": bodies(found), "is_in_time": inTime}
}

func transaction(topic string) any {
	sender, consumer, stop := both(topic, rmq.SUB_ALL)
	defer stop()
	for _, body := range []string{"yes", "no"} {
		begun := sender.BeginTransaction()
		_, err := sender.SendWithTransaction(context.Background(), message(topic, body), begun)
		must(err)
		if body == "yes" {
			must(begun.Commit())
		} else {
			must(begun.RollBack())
		}
	}
	return bodies(received(consumer, 2, 12*time.Second))
}

func orphan(topic string) any {
	sender, consumer, stop := both(topic, rmq.SUB_ALL)
	defer stop()
	begun := sender.BeginTransaction()
	_, err := sender.SendWithTransaction(context.Background(), message(topic, "orphan"), begun)
	must(err)
	return bodies(received(consumer, 1, limit))
}

func nack(topic string) any {
	sender, consumer, stop := both(topic, rmq.SUB_ALL)
	defer stop()
	send(sender, message(topic, "again"))
	var found []*rmq.MessageView
	for deadline := time.Now().Add(limit); len(found) == 0 && time.Now().Before(deadline); {
		found, _ = consumer.Receive(context.Background(), 1, invisible)
	}
	must(consumer.ChangeInvisibleDuration(found[0], 2*time.Second))
	told := []any{}
	for _, one := range append(found, received(consumer, 1, limit)...) {
		told = append(told, []any{string(one.GetBody()), one.GetDeliveryAttempt()})
	}
	return told
}

func tags(topic string) any {
	sender, consumer, stop := both(topic, rmq.NewFilterExpression("B || C"))
	defer stop()
	for _, tag := range []string{"A", "B", "C", "D"} {
		sent := message(topic, strings.ToLower(tag))
		sent.SetTag(tag)
		send(sender, sent)
	}
	return bodies(received(consumer, 3, 12*time.Second))
}

func sql(topic string) any {
	wanted := rmq.NewFilterExpressionWithType("n > 1", rmq.SQL92)
	sender, consumer, stop := both(topic, wanted)
	defer stop()
	for number := 0; number < 4; number++ {
		sent := message(topic, fmt.Sprint("m", number))
		sent.AddProperty("n", strconv.Itoa(number))
		send(sender, sent)
	}
	return bodies(received(consumer, 3, 12*time.Second))
}

func refused(topic string) any {
	sender, err := producer(topic)
	must(err)
	defer func() { _ = sender.GracefulStop() }()
	grouped := message(topic, "x")
	grouped.SetMessageGroup("g")
	timed := message(topic, "x")
	timed.SetDelayTimestamp(time.Now().Add(time.Minute))
	told := []string{}
	for _, wrong := range []*rmq.Message{grouped, timed, message(topic+"-missing", "x")} {
		if _, err := sender.Send(context.Background(), wrong); err != nil {
			told = append(told, fmt.Sprintf("%T", err))
		} else {
			told = append(told, "sent")
		}
	}
	return told
}

func play(name, topic string) (told any) {
	defer func() {
		if failed := recover(); failed != nil {
			told = fmt.Sprint(failed)
		}
	}()
	scenarios := map[string]func(string) any{
		"normal": normal, "delay": delay, "transaction": transaction, "orphan": orphan,
		"nack": nack, "tags": tags, "sql": sql, "refused": refused,
	}
	return scenarios[name](topic)
}

func main() {
	endpoint = os.Args[1]
	_ = os.Setenv("mq.consoleAppender.enabled", "false")
	rmq.ResetLogger()
	for _, name := range os.Args[3:] {
		line, err := json.Marshal(map[string]any{"scenario": name, "told": play(name, os.Args[2]+name)})
		must(err)
		fmt.Println(string(line))
	}
}
