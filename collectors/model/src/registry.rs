//! List the objects, and find what an address means at a time.
//!
//! Init events are few, and their joins are relational, and made elsewhere. Here each object has
//! the number of its row, and addresses get their meaning as time goes on.

use ahash::{HashMap, HashSet};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;

use crate::identity::{Process, text_at};
use crate::ids::{Id, Maybe, get};
use crate::rows::NEVER;

/// The largest depth of a history that is considered, in messages.
const DEEPEST: i64 = 10_000;

/// Marker type of a text's number: the name of a topic, a node, ...
pub enum Name {}
/// Marker type of a publisher's number.
pub enum Publisher {}
/// Marker type of a subscription's number.
pub enum Subscription {}
/// Marker type of a client's number.
#[derive(Clone, Copy)]
pub enum Client {}
/// Marker type of a service's number.
#[derive(Clone, Copy)]
pub enum Service {}
/// Marker type of a timer's number.
pub enum Timer {}

/// Texts by number.
#[derive(Clone, Default)]
pub struct Names {
    texts: Vec<String>,
    numbers: HashMap<String, Id<Name>>,
}

impl Names {
    /// Return the number of a text, if there is one; a new text gets the next number.
    pub fn number(&mut self, text: Option<&str>) -> Maybe<Name> {
        let text = text?;
        if let Some(number) = self.numbers.get(text) {
            return Some(*number);
        }
        let number = Id::at(self.texts.len())?;
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        Some(number)
    }

    /// Return all texts, by number.
    pub(crate) fn texts(&self) -> &[String] {
        &self.texts
    }
}

/// A table with one row per object; a column that is missing, or of another type, reads as null.
struct ObjectTable<'a>(&'a RecordBatch);

impl ObjectTable<'_> {
    fn rows<T>(&self, make: impl FnMut(usize) -> T) -> Vec<T> {
        (0..self.0.num_rows()).map(make).collect()
    }

    fn number(&self, name: &str, row: usize) -> Option<i64> {
        let array = self.0.column_by_name(name)?;
        match array.data_type() {
            _ if array.is_null(row) => None,
            DataType::Int64 => Some(array.as_primitive::<Int64Type>().value(row)),
            DataType::Int32 => Some(array.as_primitive::<Int32Type>().value(row).into()),
            DataType::UInt64 => {
                let value = array.as_primitive::<UInt64Type>().value(row);
                Some(value.cast_signed())
            }
            _ => None,
        }
    }

    fn time(&self, name: &str, row: usize) -> i64 {
        self.number(name, row).unwrap_or(NEVER)
    }

    fn bits(&self, name: &str, row: usize) -> Option<u64> {
        self.number(name, row).map(i64::cast_unsigned)
    }

    fn id<T>(&self, name: &str, row: usize) -> Maybe<T> {
        let number = u32::try_from(self.number(name, row)?);
        number.ok().and_then(Id::new)
    }

    fn text(&self, name: &str, row: usize) -> Option<&str> {
        text_at(self.0.column_by_name(name)?, row)
    }
}

/// A publisher or subscription.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub process: Maybe<Process>,
    pub topic: Maybe<Name>,
    pub node: Maybe<Name>,
    pub created: i64,
    /// When its address was given to the next object, `i64::MAX` if it never was.
    pub ended: i64,
    /// How many messages its history holds, `NEVER` if not known.
    pub depth: i64,
}

/// A callback object.
#[derive(Clone, Copy, Debug, Default)]
pub struct Callback {
    /// What the callback serves (subscription, service, timer, ...), as a name.
    pub kind: Maybe<Name>,
    /// Its topic, service or period, as a name.
    pub name: Maybe<Name>,
    pub node: Maybe<Name>,
    /// Its function, as a name.
    pub symbol: Maybe<Name>,
    /// The number of its owner, whose kind `kind` decides: see `Registry::subscription_of`.
    pub owner: Maybe<Owner>,
}

impl Callback {
    fn owner_of_kind<T>(&self, kind: Maybe<Name>) -> Maybe<T> {
        self.owner.filter(|_| self.kind == kind).map(Id::cast)
    }
}

/// Marker type of the number of a callback's owner: a subscription, a service or a timer.
pub enum Owner {}

/// A ring buffer and its owner.
#[derive(Clone, Debug)]
pub struct RingBuffer {
    /// The subscription that it belongs to.
    pub subscription: Maybe<Subscription>,
    /// The publisher whose history for late joiners it is.
    pub publisher: Maybe<Publisher>,
    pub created: i64,
}

/// The kinds of objects that an address may mean.
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

/// The number of the object that an address of a process means from a time on.
type Birth = (i64, HandleKind, Maybe<Process>, u64, u32);

fn nothing() -> RecordBatch {
    RecordBatch::new_empty(std::sync::Arc::new(arrow_schema::Schema::empty()))
}

/// Return what all addresses mean, in order of time.
fn births<'a>(table: impl Fn(&str) -> ObjectTable<'a>) -> Vec<Birth> {
    use HandleKind as Of;
    let mut births: Vec<Birth> = Vec::new();
    // Objects are numbered by their rows; the middleware's addresses refer to them by a column.
    let mut add = |kind, name, handle, number: Option<&str>| {
        let objects = table(name);
        let since = number.map_or("created_ns", |_| "since_ns");
        let birth = |row: usize| {
            let object = match number {
                Some(number) => objects.id(number, row),
                None => Id::<()>::at(row),
            };
            let (process, handle) = (objects.id("proc", row), objects.bits(handle, row)?);
            let since = objects.time(since, row);
            Some((since, kind, process, handle, object?.number()))
        };
        births.extend(objects.rows(birth).into_iter().flatten());
    };
    let (publisher, subscription) = (Some("publisher_id"), Some("subscription_id"));
    let [by_publisher, by_subscription] = ["rmw_publisher_handle", "rmw_subscription_handle"];
    add(Of::Publisher, "publishers", "publisher_handle", None);
    add(Of::Callback, "callbacks", "callback", None);
    add(Of::RingBuffer, "ring_buffers", "buffer", None);
    add(Of::Client, "clients", "rmw_client_handle", None);
    add(Of::Service, "services", "rmw_service_handle", None);
    add(
        Of::RmwPublisher,
        "publisher_by_rmw",
        by_publisher,
        publisher,
    );
    add(
        Of::RmwSubscription,
        "subscription_by_rmw",
        by_subscription,
        subscription,
    );
    births.sort_by_key(|birth| birth.0);
    births
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
    /// Clients by number; `topic` is the service's name.
    pub clients: Vec<Endpoint>,
    /// Services by number; `topic` is the service's name.
    pub services: Vec<Endpoint>,
    /// The first 16 bytes of the gids of clients.
    pub gids: Vec<[Option<u64>; 2]>,
    /// Periods of timers by number, in ns, `NEVER` if not known.
    pub periods: Vec<i64>,
    /// Ring buffers by number.
    pub ring_buffers: Vec<RingBuffer>,
    /// The name of the middleware's own topic.
    pub discovery: Maybe<Name>,
    /// The name of the topic of log messages.
    pub rosout: Maybe<Name>,
    /// The kind of callbacks of subscriptions, as a name.
    pub subscription: Maybe<Name>,
    /// The kind of callbacks of services, as a name.
    pub service: Maybe<Name>,
    /// The kind of callbacks of timers, as a name.
    pub timer: Maybe<Name>,
    /// The kind of probed functions, which are no callbacks, as a name.
    pub function: Maybe<Name>,
    /// Processes that publish log messages.
    pub loggers: HashSet<Maybe<Process>>,
    births: Vec<Birth>,
    born: usize,
    meaning: HashMap<(HandleKind, Maybe<Process>, u64), (u32, i64)>,
}

impl Registry {
    /// Take objects by the name of their table, with rows in the order of their numbers;
    /// `publisher_by_rmw` and `subscription_by_rmw` say what the middleware's addresses mean.
    #[must_use]
    pub fn new(tables: &HashMap<String, RecordBatch>) -> Self {
        let mut names = Names::default();
        let nothing = nothing();
        let table = |name: &str| ObjectTable(tables.get(name).unwrap_or(&nothing));
        let births = births(table);
        let mut endpoints = |table: &ObjectTable<'_>, name: &str| {
            table.rows(|row| Endpoint {
                process: table.id("proc", row),
                topic: names.number(table.text(name, row)),
                node: names.number(table.text("node", row)),
                created: table.time("created_ns", row),
                ended: table.number("ended_ns", row).unwrap_or(i64::MAX),
                depth: table.time("queue_depth", row),
            })
        };
        let publishers = endpoints(&table("publishers"), "topic");
        let subscriptions = endpoints(&table("subscriptions"), "topic");
        let services = endpoints(&table("services"), "service");
        let clients = table("clients");
        let gids = clients.rows(|row| ["gid_low", "gid_high"].map(|half| clients.bits(half, row)));
        let clients = endpoints(&clients, "service");
        let callbacks = table("callbacks");
        let callbacks = callbacks.rows(|row| Callback {
            kind: names.number(callbacks.text("kind", row)),
            name: names.number(callbacks.text("name", row)),
            node: names.number(callbacks.text("node", row)),
            symbol: names.number(callbacks.text("symbol", row)),
            owner: callbacks.id("owner_id", row),
        });
        let ring_buffers = table("ring_buffers");
        let ring_buffers = ring_buffers.rows(|row| RingBuffer {
            subscription: ring_buffers.id("subscription_id", row),
            publisher: ring_buffers.id("publisher_id", row),
            created: ring_buffers.time("created_ns", row),
        });
        let timers = table("timers");
        let periods = timers.rows(|row| timers.time("period_ns", row));
        let mut number_of = |name| names.number(Some(name));
        let (discovery, rosout) = (number_of("ros_discovery_info"), number_of("/rosout"));
        let kinds = ["subscription", "service", "timer", "function"].map(number_of);
        let loggers = publishers.iter().filter(|object| object.topic == rosout);
        Self {
            loggers: loggers.map(|publisher| publisher.process).collect(),
            publishers,
            subscriptions,
            clients,
            services,
            gids,
            periods,
            callbacks,
            ring_buffers,
            discovery,
            rosout,
            subscription: kinds[0],
            service: kinds[1],
            timer: kinds[2],
            function: kinds[3],
            names,
            births,
            born: 0,
            meaning: HashMap::default(),
        }
    }

    /// Advance to a time: addresses mean the objects that were created by then.
    pub(crate) fn advance_to(&mut self, time: i64) {
        while let Some((since, sort, process, handle, number)) = self.births.get(self.born)
            && *since <= time
        {
            self.meaning
                .insert((*sort, *process, *handle), (*number, *since));
            self.born += 1;
        }
    }

    /// Return the object that an address of a process means now, if it did so by the time `since`.
    pub(crate) fn object<T>(
        &self,
        kind: HandleKind,
        process: Maybe<Process>,
        handle: Option<u64>,
        since: i64,
    ) -> Maybe<T> {
        let (number, born) = self.meaning.get(&(kind, process, handle?))?;
        Id::new(*number).filter(|_| *born <= since)
    }

    /// Return a callback; one without any facts if there is none of that number.
    pub(crate) fn callback(&self, number: Maybe<Callback>) -> Callback {
        get(&self.callbacks, number).copied().unwrap_or_default()
    }

    /// Whether a number is that of a probed function, not of a callback.
    pub(crate) fn is_function(&self, number: Maybe<Callback>) -> bool {
        self.callback(number).kind == self.function
    }

    /// Return the subscription of a callback, if it is a subscription's.
    pub(crate) fn subscription_of(&self, callback: &Callback) -> Maybe<Subscription> {
        callback.owner_of_kind(self.subscription)
    }

    /// Return the timer of a callback, if it is a timer's.
    pub(crate) fn timer_of(&self, callback: &Callback) -> Maybe<Timer> {
        callback.owner_of_kind(self.timer)
    }

    /// Return the service of a callback, if it is a service's.
    pub(crate) fn service_of(&self, callback: &Callback) -> Maybe<Service> {
        callback.owner_of_kind(self.service)
    }

    /// Return how many messages the history of a subscription holds, 0 if that is not known.
    pub(crate) fn depth(&self, subscription: Maybe<Subscription>) -> usize {
        let subscription = get(&self.subscriptions, subscription);
        let depth = subscription.map_or(0, |subscription| subscription.depth.clamp(0, DEEPEST));
        usize::try_from(depth).unwrap_or(0)
    }

    /// Return when the address of a subscription was given to the next object: it was gone by then.
    pub(crate) fn ended(&self, subscription: Maybe<Subscription>) -> i64 {
        get(&self.subscriptions, subscription).map_or(i64::MAX, |subscription| subscription.ended)
    }

    /// Return the topic of a publisher, if its messages count (not those of discovery).
    pub(crate) fn topic(&self, publisher: Maybe<Publisher>) -> Maybe<Name> {
        self.counting(get(&self.publishers, publisher))
    }

    /// Return the topic of a subscription, if its messages count (not those of discovery).
    pub(crate) fn topic_at(&self, subscription: Maybe<Subscription>) -> Maybe<Name> {
        self.counting(get(&self.subscriptions, subscription))
    }

    fn counting(&self, endpoint: Option<&Endpoint>) -> Maybe<Name> {
        let topic = endpoint?.topic?;
        (Some(topic) != self.discovery).then_some(topic)
    }
}
