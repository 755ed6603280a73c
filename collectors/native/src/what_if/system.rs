//! The input of a simulation: callbacks and executors, with the samples recorded for each.

use pyo3::prelude::*;

/// Recorded samples in the order of their times [ns]. Both vectors are equally long.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Series {
    /// Time of each sample, since the begin of the recording.
    pub at: Vec<i64>,
    /// Value of each sample.
    pub value: Vec<i64>,
}

/// A publication that an execution makes: the time since its start [ns], and the topic.
pub type Output = (i64, usize);

/// Rank of a waitable among the kinds of callbacks, such as an intra-process subscription.
pub const WAITABLE: usize = 4;

/// A callback.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Callback {
    /// Rank of its kind (timer, subscription, ...) in the order in which a wait set is searched.
    pub kind: usize,
    /// Its place among the callbacks of its kind in the wait set. Callbacks without one follow in
    /// the order of their creation.
    pub place: Option<usize>,
    /// Its executor, by number.
    pub executor: usize,
    /// Its callback group, by number.
    pub group: usize,
    /// Depth of its queue: how many messages can wait.
    pub depth: Option<usize>,
    /// Period, if it is a timer [ns].
    pub period: Option<i64>,
    /// First release, if it is a timer [ns].
    pub phase: i64,
    /// Time from a publication until the message can be taken [ns].
    pub lag: i64,
    /// Execution times.
    pub executions: Series,
    /// Publications of each execution.
    pub outputs: Vec<Vec<Output>>,
    /// When another thread looks for work, since the start of each execution [ns], unless the
    /// executing thread has come back before. None: at once.
    pub takeovers: Vec<i64>,
    /// Times from the moment this callback became ready and woke an idle thread until that thread
    /// started an execution.
    pub handovers: Series,
    /// Times from the moment this callback was chosen until it started. It is chosen when a wait
    /// ends, or when the thread and the callback group become free.
    pub gaps: Series,
}

/// An executor.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Executor {
    /// The order in which it executes callbacks that are ready.
    pub order: Order,
    /// Number of threads.
    pub threads: usize,
    /// Whether the end of an execution ends the wait of another thread: `MultiThreadedExecutor`.
    pub interrupts: bool,
    /// Priority of its threads. Threads of a higher priority get the CPU first.
    pub priority: i64,
    /// Durations of waits that found something ready at once.
    pub polls: Series,
}

/// An order of dispatch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// All that is ready, once, in the order of the wait set: Single- and `MultiThreadedExecutor`.
    WaitSet,
    /// As it became ready: `EventsExecutor`.
    Events,
    /// Groups in turn, within each as it became ready: `EventsCBGExecutor`.
    Groups,
}

impl<'py> FromPyObject<'_, 'py> for Order {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match given.extract::<String>()?.as_str() {
            "wait_set" => Ok(Self::WaitSet),
            "events" => Ok(Self::Events),
            "groups" => Ok(Self::Groups),
            other => Err(pyo3::exceptions::PyValueError::new_err(format!(
                "order {other:?} is not wait_set, events or groups"
            ))),
        }
    }
}

/// Publications that no callback of the system made: when [ns], and on which topic.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Source {
    /// Since the recording's begin, in order.
    pub at: Vec<i64>,
    /// The topic, by number.
    pub topic: usize,
}

/// All of it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct System {
    /// In the order of their creation.
    pub callbacks: Vec<Callback>,
    /// By number.
    pub executors: Vec<Executor>,
    /// Of each group, whether one callback at a time runs.
    pub exclusive: Vec<bool>,
    /// Of each topic, the callbacks that receive its messages.
    pub topics: Vec<Vec<usize>>,
    /// What comes from outside.
    pub sources: Vec<Source>,
    /// How long was recorded [ns]; as long is simulated.
    pub length: i64,
    /// How long the blocks are of which the resampled recording is made [ns].
    pub block: i64,
    /// On how many CPUs callbacks run; none: on as many as they like.
    pub cpus: Option<usize>,
    /// So many executions in one replication are without an end.
    pub most: usize,
}
