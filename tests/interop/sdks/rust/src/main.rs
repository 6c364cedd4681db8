// The official SDK of RocketMQ 5 for Rust under orders; what `../../python/peer.py` says is true of it.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{MessageBuilder, MessageView};
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};
use serde_json::{json, Value};

type Told = Result<Value, Box<dyn std::error::Error>>;

const LIMIT: Duration = Duration::from_secs(90);
const INVISIBLE: Duration = Duration::from_secs(15);

struct Peer {
    endpoint: String,
    topic: String,
}

impl Peer {
    fn client(&self) -> ClientOption {
        let mut option = ClientOption::default();
        option.set_access_url(self.endpoint.clone());
        option.set_enable_tls(false);
        // With less the proxy finds that too little of the least, 5 seconds, is left.
        option.set_long_polling_timeout(Duration::from_secs(8));
        option
    }

    async fn producer(&self) -> Result<Producer, Box<dyn std::error::Error>> {
        let mut option = ProducerOption::default();
        option.set_topics(vec![self.topic.clone()]);
        let checker = Box::new(|_: String, _: MessageView| TransactionResolution::COMMIT);
        let mut made = Producer::new_transaction_producer(option, self.client(), checker)?;
        made.start().await?;
        Ok(made)
    }

    async fn consumer(&self) -> Result<SimpleConsumer, Box<dyn std::error::Error>> {
        let mut option = SimpleConsumerOption::default();
        option.set_topics(vec![self.topic.clone()]);
        option.set_consumer_group(format!("{}-group", self.topic));
        let mut made = SimpleConsumer::new(option, self.client())?;
        made.start().await?;
        Ok(made)
    }

    fn message(&self, body: &str) -> MessageBuilder {
        MessageBuilder::builder()
            .set_topic(self.topic.clone())
            .set_body(body.as_bytes().to_vec())
    }

    async fn received(
        &self,
        consumer: &SimpleConsumer,
        wanted: &FilterExpression,
        count: usize,
        wait: Duration,
    ) -> Result<Vec<MessageView>, Box<dyn std::error::Error>> {
        let mut found = Vec::new();
        let deadline = SystemTime::now() + wait;
        while found.len() < count && SystemTime::now() < deadline {
            let got = consumer.receive_with(self.topic.clone(), wanted, 32, INVISIBLE).await;
            if let Err(error) = &got {
                eprintln!("receive: {error}"); // also when there is no message
            }
            for one in got.unwrap_or_default() {
                consumer.ack(&one).await?;
                found.push(one);
            }
        }
        Ok(found)
    }

    async fn play(&self, name: &str) -> Told {
        match name {
            "normal" => self.normal().await,
            "delay" => self.delay().await,
            "transaction" => self.transaction().await,
            "orphan" => self.orphan().await,
            "tags" => self.filtered(FilterExpression::new(FilterType::Tag, "B || C")).await,
            "fifo" => self.fifo().await,
            "refused" => self.refused().await,
            "reconnect" => self.reconnect().await,
            "sql" => self.filtered(FilterExpression::new(FilterType::Sql, "n > 1")).await,
            _ => Err(format!("there is no scenario {name}").into()),
        }
    }

    async fn normal(&self) -> Told {
        let (consumer, producer) = (self.consumer().await?, self.producer().await?);
        let mut ids = BTreeSet::new();
        for number in 0..10 {
            let properties = HashMap::from([("n".to_string(), "1".to_string())]);
            let sent = self
                .message(&format!("m{number}"))
                .set_tag("A")
                .set_keys(vec![format!("k{number}")])
                .set_properties(properties)
                .build()?;
            ids.insert(producer.send(sent).await?.message_id().to_string());
        }
        let found = self.received(&consumer, &all(), 10, LIMIT).await?;
        let told = json!({
            "attempts": once(&found, |one| vec![one.delivery_attempt().into()]),
            "bodies": bodies(&found),
            "ids": ids == found.iter().map(|one| one.message_id().to_string()).collect(),
            "keys": once(&found, |one| one.keys().iter().map(|key| key.clone().into()).collect()),
            "properties": once(&found, |one| vec![one.properties()["n"].clone().into()]),
            "tags": once(&found, |one| vec![one.tag().unwrap_or("").into()]),
        });
        producer.shutdown().await?;
        consumer.shutdown().await?;
        Ok(told)
    }

    async fn delay(&self) -> Told {
        let (consumer, producer) = (self.consumer().await?, self.producer().await?);
        let due = now_seconds() + 4;
        let sent = self.message("later").set_delivery_timestamp(due).build()?;
        producer.send(sent).await?;
        let found = self.received(&consumer, &all(), 1, LIMIT).await?;
        let told = json!({"bodies": bodies(&found), "is_in_time": now_seconds() >= due});
        producer.shutdown().await?;
        consumer.shutdown().await?;
        Ok(told)
    }

    async fn transaction(&self) -> Told {
        let (consumer, producer) = (self.consumer().await?, self.producer().await?);
        for body in ["yes", "no"] {
            let sent = self.message(body).enable_transaction().build()?;
            let begun = producer.send_transaction_message(sent).await?;
            if body == "yes" {
                begun.commit().await?;
            } else {
                begun.rollback().await?;
            }
        }
        let found = self.received(&consumer, &all(), 2, Duration::from_secs(12)).await?;
        producer.shutdown().await?;
        consumer.shutdown().await?;
        Ok(json!(bodies(&found)))
    }

    async fn orphan(&self) -> Told {
        let (consumer, producer) = (self.consumer().await?, self.producer().await?);
        let sent = self.message("orphan").enable_transaction().build()?;
        producer.send_transaction_message(sent).await?;
        let found = self.received(&consumer, &all(), 1, LIMIT).await?;
        producer.shutdown().await?;
        consumer.shutdown().await?;
        Ok(json!(bodies(&found)))
    }

    async fn filtered(&self, wanted: FilterExpression) -> Told {
        let (consumer, producer) = (self.consumer().await?, self.producer().await?);
        for (number, tag) in ["A", "B", "C", "D"].iter().enumerate() {
            let body = match wanted.filter_type() {
                FilterType::Sql => format!("m{number}"),
                _ => tag.to_lowercase(),
            };
            let properties = HashMap::from([("n".to_string(), number.to_string())]);
            let sent = self.message(&body).set_tag(*tag).set_properties(properties).build()?;
            producer.send(sent).await?;
        }
        let found = self.received(&consumer, &wanted, 3, Duration::from_secs(12)).await?;
        producer.shutdown().await?;
        consumer.shutdown().await?;
        Ok(json!(bodies(&found)))
    }

    async fn fifo(&self) -> Told {
        let (consumer, producer) = (self.consumer().await?, self.producer().await?);
        for number in 0..10 {
            for group in ["a", "b"] {
                let sent = self
                    .message(&format!("{group}{number}"))
                    .set_message_group(group)
                    .build()?;
                producer.send(sent).await?;
            }
        }
        let found = self.received(&consumer, &all(), 20, LIMIT).await?;
        producer.shutdown().await?;
        consumer.shutdown().await?;
        let said: Vec<String> = found.iter().map(body).collect();
        let of = |group: &str| -> Vec<String> {
            said.iter().filter(|one| one.starts_with(group)).cloned().collect()
        };
        Ok(json!({"a": of("a"), "b": of("b")}))
    }

    async fn refused(&self) -> Told {
        let producer = self.producer().await?;
        let due = now_seconds() + 60;
        let missing = MessageBuilder::builder()
            .set_topic(format!("{}-missing", self.topic))
            .set_body(b"x".to_vec());
        let mut found = Vec::new();
        for wrong in [
            self.message("x").set_message_group("g"),
            self.message("x").set_delivery_timestamp(due),
            missing,
        ] {
            found.push(match producer.send(wrong.build()?).await {
                Ok(_) => "sent".to_string(),
                Err(error) => format!("{:?}", error.kind()),
            });
        }
        producer.shutdown().await?;
        Ok(json!(found))
    }

    async fn reconnect(&self) -> Told {
        let (consumer, producer) = (self.consumer().await?, self.producer().await?);
        let deadline = SystemTime::now() + LIMIT;
        let (mut acknowledged, mut seen) = (BTreeSet::new(), BTreeSet::new());
        while acknowledged.len() < 60 && SystemTime::now() < deadline {
            let said = format!("m{}", acknowledged.len());
            if producer.send(self.message(&said).build()?).await.is_err() {
                tokio::time::sleep(Duration::from_millis(200)).await; // the broker is away
                continue;
            }
            acknowledged.insert(said);
            if acknowledged.len() == 20 {
                println!("{}", json!({"begun": "reconnect"}));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        while !acknowledged.is_subset(&seen) && SystemTime::now() < deadline {
            let got = consumer.receive_with(self.topic.clone(), &all(), 32, INVISIBLE).await;
            for one in got.unwrap_or_default() {
                if consumer.ack(&one).await.is_ok() {
                    seen.insert(body(&one));
                }
            }
        }
        // The SDK opens no other stream, so that a server does not know it any more.
        let _ = (producer.shutdown().await, consumer.shutdown().await);
        let missing: Vec<&String> = acknowledged.difference(&seen).collect();
        Ok(json!({"acknowledged": acknowledged.len(), "missing": missing}))
    }
}

fn all() -> FilterExpression {
    FilterExpression::new(FilterType::Tag, "*")
}

fn now_seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

fn body(one: &MessageView) -> String {
    String::from_utf8_lossy(one.body()).to_string()
}

fn bodies(found: &[MessageView]) -> Vec<String> {
    let mut said: Vec<String> = found.iter().map(body).collect();
    said.sort();
    said
}

fn once(found: &[MessageView], get: impl Fn(&MessageView) -> Vec<Value>) -> Vec<Value> {
    let known: BTreeSet<String> = found.iter().flat_map(get).map(|one| one.to_string()).collect();
    known.iter().map(|one| serde_json::from_str(one).unwrap()).collect()
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    for name in &arguments[3..] {
        let peer = Peer {
            endpoint: arguments[1].clone(),
            topic: format!("{}{}", arguments[2], name),
        };
        let told = peer.play(name).await.unwrap_or_else(|error| json!(error.to_string()));
        println!("{}", json!({"scenario": name, "told": told}));
    }
    std::process::exit(0);
}
