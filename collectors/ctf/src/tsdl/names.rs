//! What names mean in CTF 1.8: those of the fields of heads, and the underscore of `LTTng`.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::model::{Enum, Field, Role, Struct, Trace, Type, Variant, types_of};

/// Roles in the packet header (CTF 1.8, 5.1).
const PACKET_HEADER: [(&str, Role); 3] = [
    ("magic", Role::Magic),
    ("stream_id", Role::StreamClass),
    ("stream_instance_id", Role::StreamInstance),
];
/// Roles in the packet context (CTF 1.8, 5.2).
///
/// The CPU is `LTTng`'s own: writers that escape every name of theirs (babeltrace2) escape it too.
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
/// One of more bits than the decoder counts with.
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
        if let Type::Int(int) | Type::Enum(Enum { int, .. }) = &mut field.kind {
            for (name, role) in names {
                if field.name == *name {
                    int.roles.insert(*role);
                }
            }
        }
    }
    Ok(())
}

/// Take away the one underscore that `LTTng` puts before names, lest they be keywords.
///
/// Two names may differ in the underscore only; then they keep it.
pub(super) fn publish(trace: &mut Trace) {
    for kind in types_of(trace) {
        kind.visit(&mut |kind| {
            if let Type::Struct(Struct { fields, .. })
            | Type::Variant(Variant {
                options: fields, ..
            }) = kind
            {
                let mut seen: HashMap<String, usize> = HashMap::new();
                for field in fields.iter() {
                    *seen.entry(public(&field.name).into()).or_default() += 1;
                }
                for field in fields {
                    if seen.get(public(&field.name)) == Some(&1) {
                        field.name = public(&field.name).into();
                    }
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
