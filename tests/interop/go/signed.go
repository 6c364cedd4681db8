package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// signed lets each user send, and the first one consume as well, and writes a line for what came of it:
//
//	peer signed NAMESERVER TOPIC GROUP COUNT OUT [NAME SECRET]...
func signed(arguments []string) error {
	nameserver, topic, group := primitive.NamesrvAddr{arguments[0]}, arguments[1], arguments[2]
	count, err := strconv.Atoi(arguments[3])
	if err != nil {
		return err
	}
	out, err := os.Create(arguments[4])
	if err != nil {
		return err
	}
	for at := 5; at+1 < len(arguments); at += 2 {
		credentials := primitive.Credentials{AccessKey: arguments[at], SecretKey: arguments[at+1]}
		number := (at - 5) / 2
		tell := func(deed string, bodies []string, err error) {
			line := map[string]any{"number": number, "user": arguments[at], "deed": deed, "code": 0, "bodies": bodies}
			if err != nil {
				line["code"], line["text"] = -1, err.Error()
			}
			text, _ := json.Marshal(line)
			fmt.Fprintln(out, string(text))
		}
		instance := fmt.Sprintf("signed%d", number)
		bodies, err := signedSend(nameserver, topic, instance, credentials)
		tell("send", bodies, err)
		if number == 0 {
			bodies, err = signedConsume(nameserver, topic, group, instance, count, credentials)
			tell("consume", bodies, err)
		}
	}
	return out.Close()
}

func signedSend(nameserver primitive.NamesrvAddr, topic, instance string, credentials primitive.Credentials) ([]string, error) {
	made, err := rocketmq.NewProducer(
		producer.WithNameServer(nameserver),
		producer.WithGroupName("signed_producer_go"),
		producer.WithInstanceName(instance+"send"),
		producer.WithSendMsgTimeout(timeout),
		producer.WithRetry(0),
		producer.WithCredentials(credentials),
	)
	if err != nil {
		return nil, err
	}
	if err := made.Start(); err != nil {
		return nil, err
	}
	bodies := []string{}
	for number := 0; number < 3; number++ {
		body := fmt.Sprintf("%s %d", instance, number)
		if _, err := made.SendSync(context.Background(), primitive.NewMessage(topic, []byte(body))); err != nil {
			_ = made.Shutdown()
			return bodies, err
		}
		bodies = append(bodies, body)
	}
	return bodies, made.Shutdown()
}

func signedConsume(nameserver primitive.NamesrvAddr, topic, group, instance string, count int, credentials primitive.Credentials) ([]string, error) {
	made, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer(nameserver),
		consumer.WithGroupName(group),
		consumer.WithInstance(instance+"consume"),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithCredentials(credentials),
	)
	if err != nil {
		return nil, err
	}
	var lock sync.Mutex
	bodies := []string{}
	err = made.Subscribe(topic, anything, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		lock.Lock()
		defer lock.Unlock()
		for _, message := range messages {
			bodies = append(bodies, string(message.Body))
		}
		return consumer.ConsumeSuccess, nil
	})
	if err != nil {
		return nil, err
	}
	if err := made.Start(); err != nil {
		return nil, err
	}
	err = until(func() bool {
		lock.Lock()
		defer lock.Unlock()
		return len(bodies) >= count
	}, "the messages")
	time.Sleep(settling)
	if err == nil {
		err = made.Shutdown()
	}
	lock.Lock()
	defer lock.Unlock()
	return bodies, err
}
