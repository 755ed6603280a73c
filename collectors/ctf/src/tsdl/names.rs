//! Interpret names in CTF 1.8: those of fields of heads, and the underscore of `LTTng`.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::model::{Clock, Field, Int, Role, Trace, Type, types_of};

/// Roles in the packet header (CTF 1.8, 5.1).
const PACKET_HEADER: [(&str, Role); 3] = [
    ("magic", Role::Magic),
    ("stream_id", Role::StreamClass),
    ("stream_instance_id", Role::StreamInstance),
];
/// Roles in the packet context (CTF 1.8, 5.2).
///
/// The CPU is `LTTng`'s own: writers that escape all their own names (babeltrace2) escape it, too.
const PACKET_CONTEXT: [(&str, Role); 8] = [
    ("timestamp_begin", Role::Begin),
    ("timestamp_end", Role::End),
    ("content_size", Role::ContentSize),
    ("packet_size", Role::TotalSize),
    ("packet_seq_num", Role::Sequence),
    ("events_discarded", Role::Discarded),
    ("cpu_id", Role::Cpu),
    ("_cpu_id", Role::Cpu),
];

/// Mark the fields whose names the specification reserves.
///
/// # Errors
///
/// Such a field has more bits than the decoder supports.
pub(super) fn give_roles(trace: &mut Trace) -> Result<()> {
    if let Some(Type::Struct(header)) = &mut trace.packet_header {
        mark(&mut header.fields, &PACKET_HEADER)?;
        for field in header.fields.iter_mut().filter(|f| f.name == "uuid") {
            if let Type::Array(array) = &mut field.kind {
                array.uuid = true;
            }
        }
    }
    for stream in &mut trace.streams {
        if let Some(Type::Struct(context)) = &mut stream.packet_context {
            mark(&mut context.fields, &PACKET_CONTEXT)?;
        }
        if let Some(header) = &mut stream.event_header {
            let mut marked = Ok(());
            header.visit(&mut |kind| {
                if let (Type::Struct(s), Ok(())) = (kind, &marked) {
                    marked = mark(&mut s.fields, &[("id", Role::EventClass)]);
                }
            });
            marked?;
        }
    }
    Ok(())
}

/// Give times without a clock (CTF 1.8, 8) the only clock that is declared or, without any, one
/// that counts nanoseconds since the epoch.
///
/// # Errors
///
/// There are several clocks.
pub(super) fn give_clocks(trace: &mut Trace) -> Result<()> {
    let declared = trace.clocks.len();
    let mut needed = false;
    for stream in &mut trace.streams {
        let mut used: Vec<usize> = Vec::new();
        each_int(stream.event_header.as_mut(), &mut |_, int| {
            used.extend(int.clock);
        });
        // A header that has a time needs no other one.
        let timed = !used.is_empty();
        each_int(stream.packet_context.as_mut(), &mut |_, int| {
            used.extend(int.clock);
        });
        used.sort_unstable();
        used.dedup();
        let clock = match used.as_slice() {
            [one] => Some(*one),
            _ if declared <= 1 => Some(0),
            _ => None,
        };
        let mut unclear = None;
        let mut give = |name: &str, int: &mut Int| {
            if int.clock.is_none() && !int.signed {
                match clock {
                    Some(_) => int.clock = clock,
                    None => _ = unclear.get_or_insert_with(|| name.to_owned()),
                }
                needed = true;
            }
        };
        if !timed {
            each_int(stream.event_header.as_mut(), &mut |name, int| {
                if name == "timestamp" {
                    give(name, int);
                }
            });
        }
        each_int(stream.packet_context.as_mut(), &mut |name, int| {
            if int
                .roles
                .iter()
                .any(|role| matches!(role, Role::Begin | Role::End))
            {
                give(name, int);
            }
        });
        if let Some(name) = unclear {
            return Err(Error::whole(format!(
                "stream {}: '{name}' does not say which of the {declared} clocks it is of; \
                 expected 'map = clock.<name>.value'",
                stream.id
            )));
        }
    }
    if needed && declared == 0 {
        trace.clocks.push(Clock::new(String::new()));
    }
    Ok(())
}

/// Call `visit` with the name of each integer member of the structures in a type.
fn each_int(kind: Option<&mut Type>, visit: &mut impl FnMut(&str, &mut Int)) {
    let Some(kind) = kind else { return };
    kind.visit(&mut |kind| {
        if let Type::Struct(s) = kind {
            for field in &mut s.fields {
                if let Type::Int(int) = &mut field.kind {
                    visit(&field.name, int);
                }
            }
        }
    });
}

fn mark(fields: &mut [Field], names: &[(&str, Role)]) -> Result<()> {
    for field in fields {
        if let Type::WideInt(int) = &field.kind
            && names.iter().any(|(name, _)| field.name == *name)
        {
            return Err(Error::whole(format!(
                "'{}' has {} bits: expected 1 to 64",
                field.name, int.bits
            )));
        }
        if let Type::Int(int) = &mut field.kind {
            for (name, role) in names {
                if field.name == *name {
                    int.roles.push(*role);
                }
            }
        }
    }
    Ok(())
}

/// Remove the one underscore that `LTTng` puts before names, so that they are not keywords.
///
/// Two names that differ only in the underscore keep it.
pub(super) fn publish(trace: &mut Trace) {
    for kind in types_of(trace) {
        kind.visit(&mut |kind| {
            let fields = kind.fields_mut();
            let mut seen: HashMap<String, usize> = HashMap::new();
            for field in fields.iter() {
                *seen.entry(public(&field.name).into()).or_default() += 1;
            }
            for field in fields {
                if seen.get(public(&field.name)) == Some(&1) {
                    field.name = public(&field.name).into();
                }
            }
        });
    }
}

fn public(name: &str) -> &str {
    match name.strip_prefix('_') {
        Some(rest) if !rest.is_empty() => rest,
        _ => name,
    }
}
