//! References by name (lengths of sequences, tags of variants) to slots.

use super::lexer::At;
use crate::error::{Error, Result};
use crate::model::{Length, Reference, Trace, Type, Variant};

/// What is decoded before an event's end, in order.
const SCOPES: [&str; 6] = [
    "trace.packet.header",
    "stream.packet.context",
    "stream.event.header",
    "stream.event.context",
    "event.context",
    "event.fields",
];

type Roots<'a> = [Option<&'a mut Type>; 6];

/// A reference found in a type.
struct Found {
    /// Steps from the root: member, option, or 0 for the element of an array.
    node: Vec<usize>,
    names: Vec<String>,
    at: At,
}

pub(super) fn resolve(trace: &mut Trace) -> Result<()> {
    let mut slots = 0;
    let Trace {
        packet_header,
        streams,
        ..
    } = trace;
    let mut none = [packet_header.as_mut(), None, None, None, None, None];
    resolve_root(&mut none, 0, &mut slots)?;
    for stream in streams {
        let mut roots = [
            packet_header.as_mut(),
            stream.packet_context.as_mut(),
            stream.event_header.as_mut(),
            stream.event_context.as_mut(),
            None,
            None,
        ];
        for root in 1..4 {
            resolve_root(&mut roots, root, &mut slots)?;
        }
        for event in &mut stream.events {
            roots[4] = event.context.as_mut();
            roots[5] = event.payload.as_mut();
            for root in 4..6 {
                resolve_root(&mut roots, root, &mut slots)?;
            }
        }
    }
    trace.slots = slots;
    Ok(())
}

fn resolve_root(roots: &mut Roots<'_>, root: usize, slots: &mut usize) -> Result<()> {
    let mut found = Vec::new();
    if let Some(kind) = &roots[root] {
        collect(kind, &mut Vec::new(), &mut found)?;
    }
    for reference in found {
        let (target_root, target) = find(roots, root, &reference)?;
        let choices = check(roots, root, &reference, target_root, &target)?;
        let slot = set_slot(roots, target_root, &target, slots);
        let Some(node) = roots[root]
            .as_deref_mut()
            .and_then(|kind| step_mut(kind, &reference.node))
        else {
            continue;
        };
        match node {
            Type::Array(array) => array.length = Length::Field(Reference::Slot(slot)),
            Type::Variant(variant) => {
                variant.tag = Some(Reference::Slot(slot));
                variant.choices = choices;
            }
            _ => {}
        }
    }
    Ok(())
}

fn collect(kind: &Type, path: &mut Vec<usize>, found: &mut Vec<Found>) -> Result<()> {
    let mut add = |reference: &Reference, path: &[usize]| {
        if let Reference::Path(names, at) = reference {
            found.push(Found {
                node: path.to_vec(),
                names: names.clone(),
                at: *at,
            });
        }
    };
    let members = match kind {
        Type::Array(array) => {
            if let Length::Field(reference) = &array.length {
                add(reference, path);
            }
            path.push(0);
            collect(&array.element, path, found)?;
            path.pop();
            return Ok(());
        }
        Type::Struct(s) => &s.fields,
        Type::Variant(v) => {
            match &v.tag {
                Some(reference) => add(reference, path),
                None => return Err(Error::whole("a variant in use has no tag (<...>)")),
            }
            &v.options
        }
        _ => return Ok(()),
    };
    for (i, member) in members.iter().enumerate() {
        path.push(i);
        collect(&member.kind, path, found)?;
        path.pop();
    }
    Ok(())
}

/// The field that a reference names: by absolute path, else the nearest one that is decoded
/// before in the enclosing structures, else in the scopes before, last first.
fn find(roots: &Roots<'_>, root: usize, reference: &Found) -> Result<(usize, Vec<usize>)> {
    let names: Vec<&str> = reference.names.iter().map(String::as_str).collect();
    for (scope, prefix) in SCOPES.iter().enumerate() {
        let prefix: Vec<&str> = prefix.split('.').collect();
        if names.len() > prefix.len() && names.starts_with(&prefix) {
            let rest = &names[prefix.len()..];
            let limit = (scope == root).then_some(reference.node.as_slice());
            if scope <= root
                && let Some(kind) = roots[scope].as_deref()
                && let Some(path) = descend(kind, rest, limit.map(|node| node[0]))
            {
                return Ok((scope, path));
            }
        }
    }
    if let Some(kind) = roots[root].as_deref() {
        for depth in (0..reference.node.len()).rev() {
            let (ancestor, rest) = reference.node.split_at(depth);
            if let Some(enclosing @ Type::Struct(_)) = step(kind, ancestor)
                && let Some(path) = descend(enclosing, &names, Some(rest[0]))
            {
                return Ok((root, [ancestor, &path].concat()));
            }
        }
    }
    for scope in (0..root).rev() {
        if let Some(kind) = roots[scope].as_deref()
            && let Some(path) = descend(kind, &names, None)
        {
            return Ok((scope, path));
        }
    }
    Err(Error::at(
        reference.at,
        format!(
            "no field '{}' is decoded before this one",
            reference.names.join(".")
        ),
    ))
}

/// Steps to a member of nested structures; the first only among the members before `limit`.
fn descend(kind: &Type, names: &[&str], limit: Option<usize>) -> Option<Vec<usize>> {
    let (first, rest) = names.split_first()?;
    let fields = &kind.as_struct()?.fields;
    let at = fields
        .iter()
        .take(limit.unwrap_or(fields.len()))
        .position(|f| f.name == *first)?;
    let mut path = vec![at];
    if !rest.is_empty() {
        path.extend(descend(&fields[at].kind, rest, None)?);
    }
    Some(path)
}

/// Whether the target has the right type; the choices, when the reference is a variant's tag.
fn check(
    roots: &Roots<'_>,
    root: usize,
    reference: &Found,
    target_root: usize,
    target: &[usize],
) -> Result<Vec<(i128, i128, usize)>> {
    let name = reference.names.join(".");
    let node = roots[root]
        .as_deref()
        .and_then(|kind| step(kind, &reference.node));
    let target = roots[target_root]
        .as_deref()
        .and_then(|kind| step(kind, target));
    match (node, target) {
        (Some(Type::Variant(variant)), Some(Type::Enum(tag))) => {
            let choices: Vec<_> = tag
                .mappings
                .iter()
                .filter_map(|m| {
                    let option = option_of(variant, &m.label)?;
                    Some((m.low, m.high, option))
                })
                .collect();
            if choices.is_empty() {
                return Err(Error::at(
                    reference.at,
                    format!("no label of '{name}' is an option of the variant"),
                ));
            }
            Ok(choices)
        }
        (Some(Type::Variant(_)), _) => Err(Error::at(
            reference.at,
            format!("the tag '{name}' of a variant must be an enum"),
        )),
        (_, Some(Type::Int(int))) if !int.signed => Ok(Vec::new()),
        (_, Some(Type::Enum(e))) if !e.int.signed => Ok(Vec::new()),
        _ => Err(Error::at(
            reference.at,
            format!("the length '{name}' of a sequence must be an unsigned integer"),
        )),
    }
}

fn option_of(variant: &Variant, label: &str) -> Option<usize> {
    variant.options.iter().position(|o| o.name == label)
}

fn set_slot(roots: &mut Roots<'_>, root: usize, path: &[usize], slots: &mut usize) -> usize {
    let (Some((last, parents)), Some(kind)) = (path.split_last(), roots[root].as_deref_mut())
    else {
        return 0;
    };
    let Some(Type::Struct(parent)) = step_mut(kind, parents) else {
        return 0;
    };
    *parent.fields[*last].slot.get_or_insert_with(|| {
        *slots += 1;
        *slots - 1
    })
}

fn step<'a>(kind: &'a Type, path: &[usize]) -> Option<&'a Type> {
    path.iter().try_fold(kind, |kind, at| match kind {
        Type::Array(array) => Some(&array.element),
        Type::Struct(s) => s.fields.get(*at).map(|f| &f.kind),
        Type::Variant(v) => v.options.get(*at).map(|f| &f.kind),
        _ => None,
    })
}

fn step_mut<'a>(kind: &'a mut Type, path: &[usize]) -> Option<&'a mut Type> {
    path.iter().try_fold(kind, |kind, at| match kind {
        Type::Array(array) => Some(&mut array.element),
        Type::Struct(s) => s.fields.get_mut(*at).map(|f| &mut f.kind),
        Type::Variant(v) => v.options.get_mut(*at).map(|f| &mut f.kind),
        _ => None,
    })
}
