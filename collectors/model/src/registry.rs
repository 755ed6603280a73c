//! What objects there are, and what an address means at a time.
//!
//! Init events are few, and what they say of objects is relational: it is joined elsewhere. Here
//! each object has the number of its row; addresses get their meaning as time goes on.

use ahash::{HashMap, HashSet};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;

use crate::rows::{NEVER, NONE};

/// A history holds so many messages at most, as far as this goes.
const DEEPEST: i64 = 10_000;

/// Texts by number.
#[derive(Clone, Default)]
pub struct Names {
    texts: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Names {
    /// The number of a text.
    pub fn number(&mut self, text: &str) -> u32 {
        if let Some(known) = self.numbers.get(text) {
            return *known;
        }
        let number = u32::try_from(self.texts.len()).unwrap_or(NONE);
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }

    /// All texts, by number.
    #[must_use]
    pub fn texts(&self) -> &[String] {
        &self.texts
    }
}

/// A table of objects, one row each.
struct ObjectTable<'a>(&'a RecordBatch);

impl ObjectTable<'_> {
    fn len(&self) -> usize {
        self.0.num_rows()
    }

    /// A column of numbers, `NEVER` where there is none.
    fn numbers(&self, name: &str) -> Vec<i64> {
        self.maybe(name)
            .into_iter()
            .map(|x| x.unwrap_or(NEVER))
            .collect()
    }

    fn maybe(&self, name: &str) -> Vec<Option<i64>> {
        let nothing = || vec![None; self.len()];
        self.0
            .column_by_name(name)
            .map_or_else(nothing, |array| match array.data_type() {
                DataType::Int64 => array.as_primitive::<Int64Type>().iter().collect(),
                DataType::Int32 => array
                    .as_primitive::<Int32Type>()
                    .iter()
                    .map(|x| x.map(i64::from))
                    .collect(),
                DataType::UInt64 => array
                    .as_primitive::<UInt64Type>()
                    .iter()
                    .map(|x| x.map(u64::cast_signed))
                    .collect(),
                _ => nothing(),
            })
    }

    /// The numbers of a column of text, `NONE` where there is none.
    fn names(&self, name: &str, names: &mut Names) -> Vec<u32> {
        let Some(array) = self.0.column_by_name(name) else {
            return vec![NONE; self.len()];
        };
        let mut number = |text: Option<&str>| text.map_or(NONE, |text| names.number(text));
        match array.data_type() {
            DataType::Utf8View => array.as_string_view().iter().map(&mut number).collect(),
            DataType::Utf8 => array.as_string::<i32>().iter().map(&mut number).collect(),
            DataType::LargeUtf8 => array.as_string::<i64>().iter().map(&mut number).collect(),
            _ => vec![NONE; self.len()],
        }
    }
}

fn small(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(NONE)
}

/// A publisher or subscription.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Its process.
    pub process: u32,
    /// Its topic, as a name.
    pub topic: u32,
    /// Its node, as a name.
    pub node: u32,
    /// When it was made.
    pub created: i64,
    /// When its address was given to the next one, the last time there is if it never was.
    pub ended: i64,
    /// How many messages its history holds, `NEVER` where not known.
    pub depth: i64,
}

/// A callback object.
#[derive(Clone, Copy, Debug)]
pub struct Callback {
    /// What it serves, as a name.
    pub kind: u32,
    /// Its topic or service, or its period, as a name.
    pub name: u32,
    /// Its node, as a name.
    pub node: u32,
    /// Its function, as a name.
    pub symbol: u32,
    /// The number of its owner, by kind.
    pub owner: u32,
}

/// Whose a ring buffer is.
#[derive(Clone, Debug)]
pub struct RingBuffer {
    /// The subscription that it belongs to.
    pub subscription: u32,
    /// The publisher whose history it is.
    pub publisher: u32,
    /// When it was made.
    pub created: i64,
}

/// What an address may mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HandleKind {
    /// A publisher of rcl.
    Publisher,
    /// A publisher of the middleware.
    RmwPublisher,
    /// A subscription of the middleware.
    RmwSubscription,
    /// A callback.
    Callback,
    /// A ring buffer.
    RingBuffer,
    /// A client of the middleware.
    Client,
    /// A service of the middleware.
    Service,
}

/// From a time on, what an address of a process means: the number of an object.
type Birth = (i64, HandleKind, u32, u64, u32);

fn nothing() -> RecordBatch {
    RecordBatch::new_empty(std::sync::Arc::new(arrow_schema::Schema::empty()))
}

/// What all addresses mean, in the order of time.
fn births<'a>(table: impl Fn(&str) -> ObjectTable<'a>) -> Vec<Birth> {
    let mut found = Vec::new();
    for (sort, name, handle, since, number) in [
        (
            HandleKind::Publisher,
            "publishers",
            "publisher_handle",
            "created_ns",
            "",
        ),
        (
            HandleKind::Callback,
            "callbacks",
            "callback",
            "created_ns",
            "",
        ),
        (
            HandleKind::RingBuffer,
            "ring_buffers",
            "buffer",
            "created_ns",
            "",
        ),
        (
            HandleKind::Client,
            "clients",
            "rmw_client_handle",
            "created_ns",
            "",
        ),
        (
            HandleKind::Service,
            "services",
            "rmw_service_handle",
            "created_ns",
            "",
        ),
        (
            HandleKind::RmwPublisher,
            "publisher_by_rmw",
            "rmw_publisher_handle",
            "since_ns",
            "publisher_id",
        ),
        (
            HandleKind::RmwSubscription,
            "subscription_by_rmw",
            "rmw_subscription_handle",
            "since_ns",
            "subscription_id",
        ),
    ] {
        let of = table(name);
        let (process, since) = (of.numbers("proc"), of.numbers(since));
        let number = of.maybe(number);
        for (row, handle) in of.maybe(handle).into_iter().enumerate() {
            if let Some(handle) = handle {
                let which = number[row].map_or(small(i64::try_from(row).unwrap_or(-1)), small);
                let handle = handle.cast_unsigned();
                found.push((since[row], sort, small(process[row]), handle, which));
            }
        }
    }
    found.sort_by_key(|birth| birth.0);
    found
}

/// All objects, and what addresses mean now.
#[derive(Clone)]
pub struct Registry {
    /// Names of topics, nodes, ...
    pub names: Names,
    /// Publishers by number.
    pub publishers: Vec<Endpoint>,
    /// Subscriptions by number.
    pub subscriptions: Vec<Endpoint>,
    /// Callbacks by number.
    pub callbacks: Vec<Callback>,
    /// Clients by number; a service's name is the topic.
    pub clients: Vec<Endpoint>,
    /// Services by number; a service's name is the topic.
    pub services: Vec<Endpoint>,
    /// The first 16 bytes of the gids of clients.
    pub gids: Vec<[Option<u64>; 2]>,
    /// Periods of timers by number, `NEVER` where not known.
    pub periods: Vec<i64>,
    /// Ring buffers by number.
    pub ring_buffers: Vec<RingBuffer>,
    /// The name of the middleware's own topic.
    pub discovery: u32,
    /// The name of the topic of log messages.
    pub rosout: u32,
    /// What a callback serves, as a name: a subscription.
    pub subscription: u32,
    /// What a callback serves, as a name: a service.
    pub service: u32,
    /// What a callback serves, as a name: a timer.
    pub timer: u32,
    /// Processes that publish log messages.
    pub loggers: HashSet<u32>,
    births: Vec<Birth>,
    born: usize,
    meaning: HashMap<(HandleKind, u32, u64), (u32, i64)>,
}

impl Registry {
    /// Objects by the name of their table, rows in the order of their numbers; `publisher_by_rmw`
    /// and `subscription_by_rmw` say what the middleware's addresses mean.
    #[must_use]
    pub fn new(tables: &HashMap<String, RecordBatch>) -> Self {
        let mut names = Names::default();
        let nothing = nothing();
        let table = |name: &str| ObjectTable(tables.get(name).unwrap_or(&nothing));
        let births = births(table);
        let mut endpoints = |of: &ObjectTable<'_>, name: &str| -> Vec<Endpoint> {
            let (topic, node) = (of.names(name, &mut names), of.names("node", &mut names));
            let (process, created) = (of.numbers("proc"), of.numbers("created_ns"));
            let (ended, depth) = (of.maybe("ended_ns"), of.numbers("queue_depth"));
            (0..of.len())
                .map(|row| Endpoint {
                    process: small(process[row]),
                    topic: topic[row],
                    node: node[row],
                    created: created[row],
                    ended: ended[row].unwrap_or(i64::MAX),
                    depth: depth[row],
                })
                .collect()
        };
        let publishers = endpoints(&table("publishers"), "topic");
        let subscriptions = endpoints(&table("subscriptions"), "topic");
        let clients = endpoints(&table("clients"), "service");
        let services = endpoints(&table("services"), "service");
        let (low, high) = (
            table("clients").maybe("gid_low"),
            table("clients").maybe("gid_high"),
        );
        let gids = low.iter().zip(high);
        let gids =
            gids.map(|(low, high)| [low.map(i64::cast_unsigned), high.map(i64::cast_unsigned)]);
        let of = table("callbacks");
        let mut texts = |column| of.names(column, &mut names);
        let (kind, name, node) = (texts("kind"), texts("name"), texts("node"));
        let (symbol, owner) = (texts("symbol"), of.numbers("owner_id"));
        let callbacks = (0..of.len()).map(|row| Callback {
            kind: kind[row],
            name: name[row],
            node: node[row],
            symbol: symbol[row],
            owner: small(owner[row]),
        });
        let callbacks = callbacks.collect();
        let of = table("ring_buffers");
        let [subscription, publisher, created] =
            ["subscription_id", "publisher_id", "created_ns"].map(|name| of.numbers(name));
        let ring_buffers = (0..of.len()).map(|row| RingBuffer {
            subscription: small(subscription[row]),
            publisher: small(publisher[row]),
            created: created[row],
        });
        let rosout = names.number("/rosout");
        let loggers = publishers.iter().filter(|of| of.topic == rosout);
        Self {
            loggers: loggers.map(|of| of.process).collect(),
            publishers,
            subscriptions,
            clients,
            services,
            gids: gids.collect(),
            periods: table("timers").numbers("period_ns"),
            callbacks,
            ring_buffers: ring_buffers.collect(),
            discovery: names.number("ros_discovery_info"),
            rosout,
            subscription: names.number("subscription"),
            service: names.number("service"),
            timer: names.number("timer"),
            names,
            births,
            born: 0,
            meaning: HashMap::default(),
        }
    }

    /// From here on it is at least this time.
    pub fn advance_to(&mut self, time: i64) {
        while let Some((since, sort, process, handle, number)) = self.births.get(self.born)
            && *since <= time
        {
            self.meaning
                .insert((*sort, *process, *handle), (*number, *since));
            self.born += 1;
        }
    }

    /// What an address of a process means now, if it has since a time; `NONE` where it is not known.
    #[must_use]
    pub fn object(&self, sort: HandleKind, process: u32, handle: Option<u64>, since: i64) -> u32 {
        let found = handle.and_then(|handle| self.meaning.get(&(sort, process, handle)));
        found.map_or(
            NONE,
            |(number, born)| if *born <= since { *number } else { NONE },
        )
    }
}

impl Registry {
    /// A callback; one of which nothing is known where there is none of that number.
    #[must_use]
    pub fn callback(&self, number: u32) -> Callback {
        let found = self.callbacks.get(number as usize);
        found.copied().unwrap_or(Callback {
            kind: NONE,
            name: NONE,
            node: NONE,
            symbol: NONE,
            owner: NONE,
        })
    }

    /// How many messages the history of a subscription holds; 0 where that is not known.
    #[must_use]
    pub fn depth(&self, subscription: u32) -> usize {
        let of = self.subscriptions.get(subscription as usize);
        let depth = of.map_or(0, |of| of.depth.clamp(0, DEEPEST));
        usize::try_from(depth).unwrap_or(0)
    }

    /// The topic of a publisher whose messages count, or `NONE`.
    #[must_use]
    pub fn topic(&self, publisher: u32) -> u32 {
        self.counting(self.publishers.get(publisher as usize))
    }

    /// The topic of a subscription whose messages count, or `NONE`.
    #[must_use]
    pub fn topic_at(&self, subscription: u32) -> u32 {
        self.counting(self.subscriptions.get(subscription as usize))
    }

    fn counting(&self, of: Option<&Endpoint>) -> u32 {
        of.map_or(NONE, |of| {
            if of.topic == self.discovery {
                NONE
            } else {
                of.topic
            }
        })
    }
}
