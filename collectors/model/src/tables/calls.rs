//! Make the table of service calls.

use std::ops::Range;

use crate::columns::{Columns, columns};
use crate::ids::get;
use crate::model::Model;
use crate::rows::NEVER;
use crate::services::Call;

use super::Tables;

impl Tables {
    /// Return all calls; before Kilted, one per execution of a service's callback.
    pub(super) fn served(model: &Model) -> Vec<Call> {
        let registry = &model.registry;
        if model.services.happened() {
            return model.services.calls(registry);
        }
        let mut callbacks = registry.callbacks.iter();
        if callbacks.all(|callback| callback.kind != registry.service) {
            return Vec::new();
        }
        let executions = model.callbacks.executions.iter();
        let executions =
            executions.map(|(number, row)| (number, row, registry.callback(row.callback)));
        let executions = executions.filter(|(.., callback)| callback.kind == registry.service);
        let calls = executions.map(|(number, row, callback)| Call {
            client: None,
            service: registry.service_of(&callback),
            process: model.process(row.thread),
            sequence: NEVER,
            times: [NEVER; 4],
            called: [NEVER; 2],
            received: NEVER,
            within: None,
            execution: Some(number),
        });
        calls.collect()
    }

    pub(super) fn calls(&self, columns: &mut Columns<'_>, range: Range<u32>) {
        let (model, registry) = (&self.model, &self.model.registry);
        let rows = self.calls.iter().skip(range.start as usize);
        let rows: Vec<Call> = rows.take(range.len()).copied().collect();
        let client = |row: &Call| get(&registry.clients, row.client);
        let service = |row: &Call| get(&registry.services, row.service);
        let name = |row: &Call| {
            let object = service(row).or_else(|| client(row));
            object.and_then(|object| object.topic)
        };
        self.of_processes(columns, rows.iter().map(|row| row.process));
        columns!(columns, rows, |row|
            name "service" name(row);
            name "client_node" client(row).and_then(|client| client.node);
            name "server_node" service(row).and_then(|service| service.node);
            id "client_id" row.client;
            id "service_id" row.service;
            int64 "sequence_number" row.sequence;
            int64 "request_called_ns" row.called[0];
            int64 "request_sent_ns" row.times[0];
            int64 "request_taken_ns" row.times[1];
            int64 "callback_start_ns" self.start(row.execution);
            int64 "callback_end_ns" self.end(row.execution);
            int64 "response_called_ns" row.called[1];
            int64 "response_sent_ns" row.times[2];
            int64 "response_taken_ns" row.times[3];
            int64 "response_received_ns" row.received;
            id "callback_instance_id" row.execution;
            id "client_callback_instance_id"
                model.callbacks.enclosing(row.within, row.times[0]);
        );
    }
}
