//! Resolve references by name (lengths, tags, selectors) to slots.
//!
//! A reference of CTF 2 may lead to one of several fields, namely into the options of a variant;
//! these fields share a slot. The decoder empties the slots of all options before it decodes one, so
//! a slot holds a value only if the field that the reference means was decoded.

use std::collections::HashMap;

use crate::error::{Error, Result, fail};
use crate::model::{Path, Reference, Trace, Type, Unresolved, types_of};

/// The scopes that are decoded before an event's end, in order.
const SCOPES: [&str; 6] = [
    "trace.packet.header",
    "stream.packet.context",
    "stream.event.header",
    "stream.event.context",
    "event.context",
    "event.fields",
];

type Roots<'a> = [Option<&'a mut Type>; 6];

/// Steps from a root: a member or option by index, 0 for an array's element or an optional field.
type Steps = Vec<usize>;

/// A reference found in a type.
struct Located {
    node: Steps,
    unresolved: Unresolved,
}

/// Ranges of values of a tag, and the option that each chooses.
type Choices = Vec<(i128, i128, usize)>;

/// Slots, some of which turn out to be the same.
#[derive(Default)]
struct Slots {
    /// For each slot, an earlier one that it is the same as, or itself.
    same: Vec<usize>,
}

impl Slots {
    fn add(&mut self) -> usize {
        self.same.push(self.same.len());
        self.same.len() - 1
    }

    fn first(&self, mut slot: usize) -> usize {
        while self.same[slot] != slot {
            slot = self.same[slot];
        }
        slot
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.first(a), self.first(b));
        self.same[a.max(b)] = a.min(b);
    }
}

/// Replace all references of a trace by slots.
///
/// # Errors
///
/// A reference leads nowhere, or to a field of the wrong type.
pub fn resolve(trace: &mut Trace) -> Result<()> {
    let mut slots = Slots::default();
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
    trace.slots = slots.same.len();
    for kind in types_of(trace) {
        kind.visit(&mut |kind| settle(kind, &slots));
    }
    Ok(())
}

/// Give shared slots one number.
fn settle(kind: &mut Type, slots: &Slots) {
    if let Some(Reference::Slot(slot)) = kind.reference_mut() {
        *slot = slots.first(*slot);
    }
    for slot in kind.fields_mut().iter_mut().filter_map(|f| f.slot.as_mut()) {
        *slot = slots.first(*slot);
    }
}

fn resolve_root(roots: &mut Roots<'_>, root: usize, slots: &mut Slots) -> Result<()> {
    let mut references = Vec::new();
    if let Some(kind) = &mut roots[root] {
        collect(kind, &mut Vec::new(), &mut references)?;
    }
    for reference in references {
        let targets = match &reference.unresolved.path {
            Path::Names(names) => vec![by_name(roots, root, &reference, names)?],
            Path::Location(origin, path) => locate(roots, root, &reference, *origin, path)?,
        };
        let choices = check(roots, root, &reference, &targets)?;
        let slot = slot_of(roots, &targets, slots);
        let Some(node) = roots[root]
            .as_deref_mut()
            .and_then(|kind| step_mut(kind, &reference.node))
        else {
            continue;
        };
        if let Some(reference) = node.reference_mut() {
            *reference = Reference::Slot(slot);
        }
        if let Type::Variant(variant) = node {
            variant.choices = choices;
        }
    }
    Ok(())
}

fn collect(kind: &mut Type, path: &mut Steps, references: &mut Vec<Located>) -> Result<()> {
    if matches!(kind, Type::Variant(variant) if variant.tag.is_none()) {
        return Err(Error::whole("a variant in use has no tag (<...>)"));
    }
    if let Some(Reference::Unresolved(unresolved)) = kind.reference_mut() {
        references.push(Located {
            node: path.clone(),
            unresolved: Unresolved::clone(unresolved),
        });
    }
    for (at, kind) in kind.below_mut().enumerate() {
        path.push(at);
        collect(kind, path, references)?;
        path.pop();
    }
    Ok(())
}

/// Find the field that a TSDL reference names: by absolute path, else the nearest one in the
/// structures around the reference in the text, else around the use of its type, else in the scopes
/// before, the last one first.
///
/// CTF 1.8.3, 7.3.2 has only the first way and asks for absolute paths to parents; producers rely
/// on the others.
fn by_name(
    roots: &Roots<'_>,
    root: usize,
    reference: &Located,
    names: &[String],
) -> Result<(usize, Steps)> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
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
    if let Some(kind) = roots[root].as_deref()
        && let Some(steps) =
            lexically(kind, reference, &names).or_else(|| enclosing(kind, &reference.node, &names))
    {
        return Ok((root, steps));
    }
    for scope in (0..root).rev() {
        if let Some(kind) = roots[scope].as_deref()
            && let Some(path) = descend(kind, &names, None)
        {
            return Ok((scope, path));
        }
    }
    fail(
        reference.unresolved.place.clone(),
        format!("no field '{}' is decoded before this one", names.join(".")),
    )
}

/// Find a field by name among those declared before in the structures around the reference in the
/// text: the meaning of a reference in a named type does not depend on where the type is used.
fn lexically(kind: &Type, reference: &Located, names: &[&str]) -> Option<Steps> {
    let mut around = reference.unresolved.lexical.as_ref();
    let mut depth = reference.node.len();
    while let Some(scope) = around {
        // Structures around it in the text are around it in the type, too, if with others between.
        depth = (0..depth).rev().find(|depth| {
            matches!(step(kind, &reference.node[..*depth]),
                Some(Type::Struct(s)) if s.scope == scope.scope)
        })?;
        let (ancestor, rest) = reference.node.split_at(depth);
        let structure = step(kind, ancestor)?;
        if let Some(path) = descend(structure, names, Some(rest[0].min(scope.fields))) {
            return Some([ancestor, &path].concat());
        }
        around = scope.outer.as_deref();
    }
    None
}

/// Find a field by name among those decoded before in the structures around the use of its type.
fn enclosing(kind: &Type, node: &[usize], names: &[&str]) -> Option<Steps> {
    (0..node.len()).rev().find_map(|depth| {
        let (ancestor, rest) = node.split_at(depth);
        match step(kind, ancestor) {
            Some(structure @ Type::Struct(_)) => {
                let path = descend(structure, names, Some(rest[0]))?;
                Some([ancestor, &path].concat())
            }
            _ => None,
        }
    })
}

/// Find the fields that a location of CTF 2 may lead to (6.4.2 of its specification).
fn locate(
    roots: &Roots<'_>,
    root: usize,
    reference: &Located,
    origin: Option<usize>,
    path: &[Option<String>],
) -> Result<Vec<(usize, Steps)>> {
    let fail = |what: String| Error::new(reference.unresolved.place.clone(), what);
    let scope = origin.unwrap_or(root);
    let kind = roots[scope].as_deref().filter(|_| scope <= root);
    let Some(kind) = kind else {
        return Err(fail(
            "the origin is not there, or not decoded before this field".into(),
        ));
    };
    let node = (scope == root).then_some(reference.node.as_slice());
    let mut at: Vec<Steps> = vec![match origin {
        Some(_) => Vec::new(),
        None => around(kind, &reference.node)
            .ok_or_else(|| fail("there is no structure around this field".into()))?,
    }];
    for name in path {
        let mut next: Vec<Steps> = Vec::new();
        for steps in at {
            match name {
                None => next.extend(around(kind, &steps)),
                Some(name) => {
                    if let Some(member) = member_before(kind, &steps, name, node) {
                        expand(kind, member, node, &mut next);
                    }
                }
            }
        }
        next.sort();
        next.dedup();
        if next.is_empty() {
            let name = name.as_deref().unwrap_or("null");
            return Err(fail(format!(
                "no field is decoded before this one at '{name}' of the path"
            )));
        }
        at = next;
    }
    Ok(at.into_iter().map(|steps| (scope, steps)).collect())
}

/// Return the steps to the nearest structure around a node.
fn around(kind: &Type, node: &[usize]) -> Option<Steps> {
    (0..node.len())
        .rev()
        .map(|depth| &node[..depth])
        .find(|steps| matches!(step(kind, steps), Some(Type::Struct(_))))
        .map(<[usize]>::to_vec)
}

/// Return the steps to a structure's member `name`, if it is decoded or being decoded at `node`.
fn member_before(
    kind: &Type,
    steps: &[usize],
    name: &str,
    node: Option<&[usize]>,
) -> Option<Steps> {
    let fields = &step(kind, steps)?.as_struct()?.fields;
    let at = fields.iter().position(|f| f.name == name)?;
    if let Some(node) = node
        && let Some(rest) = node.strip_prefix(steps)
        && rest.first().is_none_or(|now| at > *now)
    {
        return None;
    }
    Some([steps, &[at]].concat())
}

/// Step into arrays (to the element being decoded), variants and optional fields.
fn expand(kind: &Type, steps: Steps, node: Option<&[usize]>, paths: &mut Vec<Steps>) {
    let inside = node.and_then(|node| node.strip_prefix(steps.as_slice()));
    let into = |at: usize| [steps.as_slice(), &[at]].concat();
    match step(kind, &steps) {
        Some(Type::Array(_)) if inside.is_some_and(|rest| !rest.is_empty()) => {
            expand(kind, into(0), node, paths);
        }
        Some(Type::Array(_)) => {}
        Some(Type::Optional(_)) => expand(kind, into(0), node, paths),
        Some(Type::Variant(variant)) => match inside.and_then(<[usize]>::first) {
            Some(option) => expand(kind, into(*option), node, paths),
            None => (0..variant.options.len()).for_each(|o| expand(kind, into(o), node, paths)),
        },
        // A field that is being decoded has no value yet.
        Some(Type::Struct(_)) => paths.push(steps),
        Some(_) if inside.is_none() => paths.push(steps),
        _ => {}
    }
}

/// Return the steps to a member of nested structures, the first one among those before `limit`.
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

/// Check that the targets have the right type; return the choices if this is a variant's tag.
fn check(
    roots: &Roots<'_>,
    root: usize,
    reference: &Located,
    targets: &[(usize, Steps)],
) -> Result<Choices> {
    let fail = |what: String| fail(reference.unresolved.place.clone(), what);
    let name = reference.unresolved.path.to_string();
    let node = roots[root]
        .as_deref()
        .and_then(|kind| step(kind, &reference.node));
    let kinds: Vec<&Type> = targets
        .iter()
        .filter_map(|(root, steps)| step(roots[*root].as_deref()?, steps))
        .collect();
    let all = |kind| kinds.iter().all(|k| Selector::of(k) == Some(kind));
    let integer = all(Selector::Unsigned) || all(Selector::Signed);
    match node {
        Some(Type::Variant(variant)) if !variant.choices.is_empty() => {
            if integer {
                return Ok(variant.choices.clone());
            }
            fail(format!(
                "the selector '{name}' of a variant must be an integer, signed or unsigned alike"
            ))
        }
        Some(Type::Variant(variant)) => {
            let tag = match kinds.first() {
                Some(Type::Int(tag)) if !tag.mappings.is_empty() => tag,
                _ => return fail(format!("the tag '{name}' of a variant must be an enum")),
            };
            let options = variant.options.iter().enumerate();
            let options: HashMap<&str, usize> =
                options.map(|(i, o)| (o.name.as_str(), i)).collect();
            let choices: Vec<_> = tag
                .mappings
                .iter()
                .filter_map(|m| Some((m.low, m.high, *options.get(m.label.as_str())?)))
                .collect();
            if choices.is_empty() {
                return fail(format!("no label of '{name}' is an option of the variant"));
            }
            Ok(choices)
        }
        Some(Type::Optional(optional)) => {
            if all(Selector::Bool) && optional.ranges.is_empty()
                || integer && !optional.ranges.is_empty()
            {
                return Ok(Vec::new());
            }
            fail(format!(
                "the selector '{name}' must be a boolean, or an integer with \
                 'selector-field-ranges'"
            ))
        }
        _ if all(Selector::Unsigned) => Ok(Vec::new()),
        _ => fail(format!("the length '{name}' must be an unsigned integer")),
    }
}

/// The kinds of types that a reference may lead to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Selector {
    Unsigned,
    Signed,
    Bool,
}

impl Selector {
    fn of(kind: &Type) -> Option<Self> {
        let signed = match kind {
            Type::Int(int) | Type::VarInt(int) => int.signed,
            Type::Bool(_) => return Some(Self::Bool),
            _ => return None,
        };
        Some(if signed { Self::Signed } else { Self::Unsigned })
    }
}

/// Return the slot that all targets share.
fn slot_of(roots: &mut Roots<'_>, targets: &[(usize, Steps)], slots: &mut Slots) -> usize {
    let mut shared = None;
    for (root, steps) in targets {
        let (Some((last, parents)), Some(kind)) = (steps.split_last(), roots[*root].as_deref_mut())
        else {
            continue;
        };
        let Some(field) = step_mut(kind, parents).and_then(|k| k.fields_mut().get_mut(*last))
        else {
            continue;
        };
        match (field.slot, shared) {
            (Some(slot), Some(other)) => slots.join(slot, other),
            (Some(slot), None) => shared = Some(slot),
            (None, _) => field.slot = Some(*shared.get_or_insert_with(|| slots.add())),
        }
    }
    shared.unwrap_or(0)
}

fn step<'a>(kind: &'a Type, path: &[usize]) -> Option<&'a Type> {
    path.iter().try_fold(kind, |kind, at| kind.below().nth(*at))
}

fn step_mut<'a>(kind: &'a mut Type, path: &[usize]) -> Option<&'a mut Type> {
    path.iter()
        .try_fold(kind, |kind, at| kind.below_mut().nth(*at))
}
