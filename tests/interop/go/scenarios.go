package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

type handler = func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

var anything = consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}

// sends: synchronous, asynchronous, one-way, a batch, a compressed body, a delay, and a push consumer with two tags.
func (peer *Peer) sends() error {
	sender, err := peer.producer("Sends")
	if err != nil {
		return err
	}
	background := context.Background()
	tagOf := func(number int) string { return []string{"red", "green", "blue"}[number%3] }
	for number := 0; number < 30; number++ {
		message := peer.message("Sends", tagOf(number), number)
		if number == 0 {
			message.Body = []byte(strings.Repeat("long ", 4000))
		}
		if number == 2 {
			message.WithDelayTimeLevel(1)
		}
		if number == 5 {
			message.WithProperty("TIMER_DELAY_MS", "1500")
		}
		sent, err := sender.SendSync(background, message)
		if err != nil {
			return err
		}
		peer.tellSent("Sends", []int{number}, sent)
	}
	var open sync.WaitGroup
	var failure atomic.Value
	for number := 30; number < 60; number++ {
		number := number
		open.Add(1)
		err := sender.SendAsync(background, func(_ context.Context, sent *primitive.SendResult, err error) {
			defer open.Done()
			if err != nil {
				failure.Store(err)
				return
			}
			peer.tellSent("Sends", []int{number}, sent)
		}, peer.message("Sends", tagOf(number), number))
		if err != nil {
			return err
		}
	}
	open.Wait()
	if err, failed := failure.Load().(error); failed {
		return err
	}
	for number := 60; number < 90; number++ {
		if err := sender.SendOneWay(background, peer.message("Sends", tagOf(number), number)); err != nil {
			return err
		}
	}
	batch, numbers := []*primitive.Message{}, []int{}
	for number := 90; number < 120; number++ {
		batch, numbers = append(batch, peer.message("Sends", tagOf(number), number)), append(numbers, number)
	}
	sent, err := sender.SendSync(background, batch...)
	if err != nil {
		return err
	}
	peer.tellSent("Sends", numbers, sent)
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: "red || blue"}
	count, receiver, err := peer.receive("Sends", "received", selector)
	if err != nil {
		return err
	}
	if err := until(func() bool { return count.Load() >= 80 }, "80 tagged messages"); err != nil {
		return err
	}
	time.Sleep(settling)
	if err := receiver.Shutdown(); err != nil {
		return err
	}
	return sender.Shutdown()
}

// filtered: a push consumer with a condition on properties; message 7 is sent once the others are consumed.
func (peer *Peer) filtered() error {
	sender, err := peer.producer("Filtered")
	if err != nil {
		return err
	}
	send := func(number int) error {
		message := peer.message("Filtered", noTag, number)
		message.WithProperty("amount", fmt.Sprintf("%d.5", number))
		if number%2 == 0 {
			message.WithProperty("region", "eu")
		}
		_, err := sender.SendSync(context.Background(), message)
		return err
	}
	for number := 10; number < 40; number++ {
		if err := send(number); err != nil {
			return err
		}
	}
	selector := consumer.MessageSelector{Type: consumer.SQL92, Expression: "amount > 20.0 AND region IS NULL OR amount = 7.5"}
	count, receiver, err := peer.receive("Filtered", "received", selector)
	if err != nil {
		return err
	}
	if err := until(func() bool { return count.Load() >= 10 }, "10 messages that pass"); err != nil {
		return err
	}
	for _, number := range []int{2, 7} {
		if err := send(number); err != nil {
			return err
		}
	}
	if err := until(func() bool { return count.Load() >= 11 }, "a later message that passes"); err != nil {
		return err
	}
	time.Sleep(settling)
	if err := receiver.Shutdown(); err != nil {
		return err
	}
	return sender.Shutdown()
}

// ordered: a queue by sharding key, a listener in order that fails twice in place.
func (peer *Peer) ordered() error {
	sender, err := peer.producer("Ordered", producer.WithQueueSelector(producer.NewHashQueueSelector()))
	if err != nil {
		return err
	}
	for number := 0; number < 60; number++ {
		message := peer.message("Ordered", noTag, number).WithShardingKey(fmt.Sprintf("customer %d", number%7))
		sent, err := sender.SendSync(context.Background(), message)
		if err != nil {
			return err
		}
		peer.tellSent("Ordered", []int{number}, sent)
	}
	var count atomic.Int64
	receiver, err := peer.push("Ordered", anything, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			peer.tellMessage("Ordered", "attempt", message)
			if message.GetKeys() == "key-20" && message.ReconsumeTimes < 2 {
				return consumer.SuspendCurrentQueueAMoment, nil
			}
			count.Add(1)
		}
		return consumer.ConsumeSuccess, nil
	}, consumer.WithConsumerOrder(true), consumer.WithConsumeMessageBatchMaxSize(1), consumer.WithSuspendCurrentQueueTimeMillis(200*time.Millisecond))
	if err != nil {
		return err
	}
	if err := until(func() bool { return count.Load() >= 60 }, "60 messages in order"); err != nil {
		return err
	}
	time.Sleep(settling)
	if err := receiver.Shutdown(); err != nil {
		return err
	}
	return sender.Shutdown()
}

// broadcast: two members, each of which gets everything.
func (peer *Peer) broadcast() error {
	sender, err := peer.producer("Broadcast")
	if err != nil {
		return err
	}
	options := func(member string) []consumer.Option {
		return []consumer.Option{consumer.WithConsumerModel(consumer.BroadCasting), consumer.WithInstance(peer.prefix + member)}
	}
	first, one, err := peer.receive("Broadcast", "one", anything, options("one")...)
	if err != nil {
		return err
	}
	second, two, err := peer.receive("Broadcast", "two", anything, options("two")...)
	if err != nil {
		return err
	}
	for number := 0; number < 20; number++ {
		if _, err := sender.SendSync(context.Background(), peer.message("Broadcast", noTag, number)); err != nil {
			return err
		}
	}
	err = until(func() bool { return first.Load() >= 20 && second.Load() >= 20 }, "both members to get all")
	if err != nil {
		return err
	}
	time.Sleep(settling)
	for _, receiver := range []rocketmq.PushConsumer{one, two} {
		if err := receiver.Shutdown(); err != nil {
			return err
		}
	}
	return sender.Shutdown()
}

// retry: message 0 fails twice and comes again through the retry topic, at the shortest delay.
func (peer *Peer) retry() error {
	sender, err := peer.producer("Retry")
	if err != nil {
		return err
	}
	for number := 0; number < 3; number++ {
		if _, err := sender.SendSync(context.Background(), peer.message("Retry", noTag, number)); err != nil {
			return err
		}
	}
	var count atomic.Int64
	receiver, err := peer.push("Retry", anything, func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			peer.tellMessage("Retry", "attempt", message)
			if message.GetKeys() == "key-0" && message.ReconsumeTimes < 2 {
				if concurrently, found := primitive.GetConcurrentlyCtx(ctx); found {
					concurrently.DelayLevelWhenNextConsume = 1
				}
				return consumer.ConsumeRetryLater, nil
			}
			count.Add(1)
		}
		return consumer.ConsumeSuccess, nil
	}, consumer.WithConsumeMessageBatchMaxSize(1))
	if err != nil {
		return err
	}
	if err := until(func() bool { return count.Load() >= 3 }, "the message that failed"); err != nil {
		return err
	}
	time.Sleep(settling)
	if err := receiver.Shutdown(); err != nil {
		return err
	}
	return sender.Shutdown()
}

// poll: the pull consumer that is assigned queues, and acknowledges.
func (peer *Peer) poll() error {
	sender, err := peer.producer("Poll")
	if err != nil {
		return err
	}
	for number := 0; number < 40; number++ {
		if _, err := sender.SendSync(context.Background(), peer.message("Poll", noTag, number)); err != nil {
			return err
		}
	}
	puller, err := peer.puller("Poll")
	if err != nil {
		return err
	}
	seen, deadline := 0, time.Now().Add(patience)
	for isQuiet := false; seen < 40 || !isQuiet; {
		if time.Now().After(deadline) {
			return fmt.Errorf("polled %d of 40", seen)
		}
		polled, err := puller.Poll(context.Background(), settling)
		isQuiet = consumer.IsNoNewMsgError(err)
		if isQuiet {
			continue
		}
		if err != nil {
			return err
		}
		for _, message := range polled.GetMsgList() {
			peer.tellMessage("Poll", "received", message)
			seen++
		}
		puller.ACK(context.Background(), polled, consumer.ConsumeSuccess)
	}
	if err := puller.PersistOffset(context.Background(), peer.prefix+"Poll"); err != nil {
		return err
	}
	if err := puller.Shutdown(); err != nil {
		return err
	}
	return sender.Shutdown()
}

// pull: from places that the user chooses, queue by queue.
func (peer *Peer) pull() error {
	sender, err := peer.producer("Pull", producer.WithQueueSelector(producer.NewManualQueueSelector()))
	if err != nil {
		return err
	}
	var queue *primitive.MessageQueue
	for number := 0; number < 40; number++ {
		message := peer.message("Pull", noTag, number)
		message.Queue = queue
		if queue == nil {
			message.Queue = &primitive.MessageQueue{Topic: peer.prefix + "Pull", BrokerName: "broker-a", QueueId: 0}
		}
		sent, err := sender.SendSync(context.Background(), message)
		if err != nil {
			return err
		}
		queue = sent.MessageQueue
	}
	puller, err := peer.puller("Pull")
	if err != nil {
		return err
	}
	for offset := int64(0); ; {
		pulled, err := puller.PullFrom(context.Background(), queue, offset, 16)
		if err != nil {
			return err
		}
		if pulled.Status != primitive.PullFound {
			peer.tell("Pull", "end", map[string]any{
				"status": int(pulled.Status), "next": pulled.NextBeginOffset,
				"least": pulled.MinOffset, "most": pulled.MaxOffset,
			})
			break
		}
		for _, message := range pulled.GetMessageExts() {
			peer.tellMessage("Pull", "received", message)
		}
		offset = pulled.NextBeginOffset
	}
	again, err := puller.PullFrom(context.Background(), queue, 37, 16)
	if err != nil {
		return err
	}
	for _, message := range again.GetMessageExts() {
		peer.tellMessage("Pull", "from 37", message)
	}
	if err := puller.Shutdown(); err != nil {
		return err
	}
	return sender.Shutdown()
}

// knowing says how a transaction ends by the number of its message: 0, 3, 6 commit; 1, 4, 7 roll back; the others
// are asked about, and then 2 and 8 commit and 5 rolls back.
type knowing struct{ peer *Peer }

func numberOf(body []byte) int {
	number := 0
	fmt.Sscanf(string(body), asAString, &number)
	return number
}

func (one knowing) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	states := []primitive.LocalTransactionState{primitive.CommitMessageState, primitive.RollbackMessageState, primitive.UnknowState}
	return states[numberOf(message.Body)%3]
}

func (one knowing) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	one.peer.tellMessage("Transactions", "checked", message)
	if numberOf(message.Body) == 5 {
		return primitive.RollbackMessageState
	}
	return primitive.CommitMessageState
}

// transactions: commits, rollbacks, and what the broker has to ask about.
func (peer *Peer) transactions() error {
	const name = "Transactions"
	sender, err := peer.transactional(knowing{peer}, peer.prefix+name+"_producer")
	if err != nil {
		return err
	}
	for number := 0; number < 9; number++ {
		if _, err := sender.SendMessageInTransaction(context.Background(), peer.message(name, noTag, number)); err != nil {
			return err
		}
	}
	count, receiver, err := peer.receive(name, "received", anything)
	if err != nil {
		return err
	}
	if err := until(func() bool { return count.Load() >= 5 }, "5 committed messages"); err != nil {
		return err
	}
	time.Sleep(settling)
	if err := receiver.Shutdown(); err != nil {
		return err
	}
	return sender.Shutdown()
}

func (peer *Peer) transactional(listener primitive.TransactionListener, group string) (rocketmq.TransactionProducer, error) {
	made, err := rocketmq.NewTransactionProducer(
		listener,
		producer.WithInstanceName(group), // one that is shared takes questions of its first group alone
		producer.WithNameServer(peer.nameserver),
		producer.WithGroupName(group),
		producer.WithSendMsgTimeout(timeout),
		producer.WithRetry(retries),
	)
	if err != nil {
		return nil, err
	}
	return made, made.Start()
}

// survivor commits its own message; of others it knows that "commit-check" is to be committed, and no other.
type survivor struct{ peer *Peer }

func (survivor) ExecuteLocalTransaction(*primitive.Message) primitive.LocalTransactionState {
	return primitive.CommitMessageState
}

func (one survivor) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	one.peer.tellMessage("Answer", "checked", message)
	if string(message.Body) == "commit-check" {
		return primitive.CommitMessageState
	}
	return primitive.RollbackMessageState
}

// answer: a member of a group of transactions that is asked about those of others, until it is killed.
func (peer *Peer) answer(group string) error {
	sender, err := peer.transactional(survivor{peer}, group)
	if err != nil {
		return err
	}
	message := primitive.NewMessage(peer.prefix, []byte("commit"))
	if _, err := sender.SendMessageInTransaction(context.Background(), message); err != nil {
		return err
	}
	peer.tell("Answer", "ready", map[string]any{})
	select {}
}

// trace: a message that is sent and consumed, both of which is noted.
func (peer *Peer) trace(group string) error {
	config := &primitive.TraceConfig{Access: primitive.Local, Resolver: primitive.NewPassthroughResolver(peer.nameserver)}
	sender, err := peer.producer("", producer.WithGroupName(group+"_producer"), producer.WithTrace(config))
	if err != nil {
		return err
	}
	sent, err := sender.SendSync(context.Background(), peer.message("", noTag, 0))
	if err != nil {
		return err
	}
	peer.tellSent("Trace", []int{0}, sent)
	count, receiver, err := peer.receive("", "received", anything, consumer.WithGroupName(group), consumer.WithTrace(config))
	if err != nil {
		return err
	}
	if err := until(func() bool { return count.Load() >= 1 }, "the message"); err != nil {
		return err
	}
	time.Sleep(settling) // what is noted is sent later
	if err := receiver.Shutdown(); err != nil {
		return err
	}
	return sender.Shutdown()
}

func (peer *Peer) producer(name string, more ...producer.Option) (rocketmq.Producer, error) {
	options := []producer.Option{
		producer.WithNameServer(peer.nameserver),
		producer.WithGroupName(peer.prefix + name + "_producer"),
		producer.WithSendMsgTimeout(timeout),
		producer.WithRetry(retries),
	}
	made, err := rocketmq.NewProducer(append(options, more...)...)
	if err != nil {
		return nil, err
	}
	return made, made.Start()
}

func (peer *Peer) push(name string, selector consumer.MessageSelector, handle handler, more ...consumer.Option) (rocketmq.PushConsumer, error) {
	options := []consumer.Option{
		consumer.WithNameServer(peer.nameserver),
		consumer.WithGroupName(peer.prefix + name),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}
	made, err := rocketmq.NewPushConsumer(append(options, more...)...)
	if err != nil {
		return nil, err
	}
	if err := made.Subscribe(peer.prefix+name, selector, handle); err != nil {
		return nil, err
	}
	return made, made.Start()
}

// receive starts a push consumer that tells what it gets and counts it.
func (peer *Peer) receive(name, event string, selector consumer.MessageSelector, more ...consumer.Option) (*atomic.Int64, rocketmq.PushConsumer, error) {
	count := &atomic.Int64{}
	made, err := peer.push(name, selector, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			peer.tellMessage(name, event, message)
		}
		count.Add(int64(len(messages)))
		return consumer.ConsumeSuccess, nil
	}, more...)
	return count, made, err
}

func (peer *Peer) puller(name string) (rocketmq.PullConsumer, error) {
	made, err := rocketmq.NewPullConsumer(
		consumer.WithNameServer(peer.nameserver),
		consumer.WithGroupName(peer.prefix+name),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithAutoCommit(true),
	)
	if err != nil {
		return nil, err
	}
	if err := made.Subscribe(peer.prefix+name, anything); err != nil {
		return nil, err
	}
	return made, made.Start()
}
