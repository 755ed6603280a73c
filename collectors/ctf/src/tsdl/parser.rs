//! Parse tokens by recursive descent; types are built as they are read, as in C.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::lexer::{At, Token, tokens};
use crate::error::{Error, Place, Result, fail};
use crate::model::{
    Array, ByteOrder, Clock, EventClass, Field, Int, Length, Lexical, MAX_BITS, MAX_DEPTH,
    MAX_NODES, Mapping, Path, Reference, StreamClass, Struct, Trace, Type, Unresolved, Variant,
    types_of,
};

/// Keywords of the language; those of C's own types are names of types, too.
const KEYWORDS: [&str; 15] = [
    "align",
    "callsite",
    "clock",
    "enum",
    "env",
    "event",
    "floating_point",
    "integer",
    "stream",
    "string",
    "struct",
    "trace",
    "typealias",
    "typedef",
    "variant",
];

/// Words of C that are parts of names of types, but not such names (CTF 1.8.3, C.1.1).
const SPECIFIERS: &[&str] = &[
    "_Bool",
    "_Complex",
    "_Imaginary",
    "char",
    "const",
    "double",
    "float",
    "int",
    "long",
    "short",
    "signed",
    "unsigned",
    "void",
];

/// Named types of a scope, by the word for their kind and their name.
type Scope = HashMap<(&'static str, String), Type>;

pub(super) struct Parser {
    tokens: Vec<(Token, At)>,
    at: usize,
    scopes: Vec<Scope>,
    /// The structure or variant whose fields are being read.
    body: Option<Lexical>,
    bodies: usize,
    native: ByteOrder,
    clock_names: Vec<(String, At)>,
    /// Number of each clock name.
    clock_numbers: HashMap<String, usize>,
    stream_ids: HashSet<u64>,
    nodes: usize,
    depth: usize,
    saw_trace: bool,
    trace: Trace,
    events: Vec<(Option<u64>, EventClass, At)>,
}

/// What a block assigns to a name.
enum Said {
    Value(Value),
    Type(Type),
}

/// The value of an attribute.
enum Value {
    Number(i128),
    Text(String),
    Quoted(String),
}

impl Value {
    fn number(&self, at: At, name: &str) -> Result<i128> {
        match self {
            Self::Number(n) => Ok(*n),
            Self::Text(t) | Self::Quoted(t) => {
                fail(at, format!("{name}: expected a number, found '{t}'"))
            }
        }
    }

    fn unsigned(&self, at: At, name: &str) -> Result<u64> {
        u64::try_from(self.number(at, name)?).map_err(|_| {
            Error::new(
                at,
                format!("{name}: expected a number that is not negative"),
            )
        })
    }

    fn text(&self) -> String {
        match self {
            Self::Number(n) => n.to_string(),
            Self::Text(t) | Self::Quoted(t) => t.clone(),
        }
    }

    /// Return a word that is not in quotes.
    fn bare(&self, at: At, name: &str) -> Result<String> {
        match self {
            Self::Quoted(t) => fail(
                at,
                format!("{name}: expected a word without quotes, found \"{t}\""),
            ),
            _ => Ok(self.text()),
        }
    }
}

impl Parser {
    pub(super) fn new(text: &str) -> Result<Self> {
        let tokens = tokens(text)?;
        let native = native_byte_order(&tokens)?;
        Ok(Self {
            tokens,
            at: 0,
            scopes: vec![Scope::default()],
            body: None,
            bodies: 0,
            native,
            clock_names: Vec::new(),
            clock_numbers: HashMap::new(),
            stream_ids: HashSet::new(),
            nodes: 0,
            depth: 0,
            saw_trace: false,
            trace: Trace::default(),
            events: Vec::new(),
        })
    }

    pub(super) fn parse(mut self) -> Result<Trace> {
        while *self.peek() != Token::End {
            self.top_level()?;
        }
        if !self.saw_trace {
            return fail(self.place(), "the metadata ends without a 'trace' block");
        }
        self.finish()
    }

    // ------------------------------------------------------------ tokens

    fn peek(&self) -> &Token {
        &self.tokens[self.at].0
    }

    fn peek_next(&self) -> &Token {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].0
    }

    fn place(&self) -> At {
        self.tokens[self.at].1
    }

    fn next(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    fn is(&self, punct: &str) -> bool {
        matches!(self.peek(), Token::Punct(p) if *p == punct)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Word(w) if w == word)
    }

    fn take(&mut self, punct: &str) -> bool {
        let found = self.is(punct);
        if found {
            self.next();
        }
        found
    }

    fn unexpected<T>(&self, expected: &str) -> Result<T> {
        let found = self.peek().describe();
        fail(self.place(), format!("expected {expected}, found {found}"))
    }

    fn expect(&mut self, punct: &str) -> Result<()> {
        if self.take(punct) {
            return Ok(());
        }
        self.unexpected(&format!("'{punct}'"))
    }

    fn word(&mut self, what: &str) -> Result<String> {
        let Token::Word(word) = self.peek() else {
            return self.unexpected(what);
        };
        let word = word.clone();
        self.next();
        Ok(word)
    }

    /// Take a word that may be a name.
    fn name(&mut self, what: &str) -> Result<String> {
        if matches!(self.peek(), Token::Word(w) if KEYWORDS.contains(&w.as_str())) {
            return self.unexpected(&format!("{what}, which a keyword cannot be"));
        }
        self.word(what)
    }

    /// Take a name, if a word comes next.
    fn optional_name(&mut self) -> Result<Option<String>> {
        match self.peek() {
            Token::Word(_) => self.name("a name").map(Some),
            _ => Ok(None),
        }
    }

    /// Take consecutive words and stars, of which names of types consist, as in C.
    fn words(&mut self) -> Vec<String> {
        let mut words = Vec::new();
        loop {
            match self.peek() {
                Token::Word(word) => words.push(word.clone()),
                Token::Punct("*") => words.push("*".into()),
                _ => return words,
            }
            self.next();
        }
    }

    // ------------------------------------------------------------ blocks

    fn top_level(&mut self) -> Result<()> {
        let place = self.place();
        let block = match self.peek() {
            Token::Word(word) => word.clone(),
            Token::Punct(";") => {
                self.next();
                return Ok(());
            }
            _ => return self.unexpected("a block or a type declaration"),
        };
        if *self.peek_next() == Token::Punct("{") {
            match block.as_str() {
                "trace" => return self.trace_block(place),
                "env" => return self.env_block(),
                "clock" => return self.clock_block(place),
                "stream" => return self.stream_block(place),
                "event" => return self.event_block(place),
                "callsite" => return self.block().map(drop),
                _ => {}
            }
        }
        if self.declaration()? {
            return Ok(());
        }
        self.unexpected("a block (trace, env, clock, stream, event) or a type declaration")
    }

    /// Parse a block (`name { name = value; name := type; declaration; ... };`).
    fn block(&mut self) -> Result<Vec<(String, At, Said)>> {
        self.next();
        self.expect("{")?;
        self.scopes.push(Scope::default());
        let mut found = Vec::new();
        while !self.take("}") {
            if self.declaration()? {
                continue;
            }
            let place = self.place();
            let name = self.path()?;
            let said = if self.take("=") {
                Said::Value(self.value()?)
            } else if self.take(":=") {
                Said::Type(self.type_only()?)
            } else {
                return self.unexpected("'=' or ':='");
            };
            self.expect(";")?;
            found.push((name, place, said));
        }
        self.scopes.pop();
        self.expect(";")?;
        Ok(found)
    }

    fn path(&mut self) -> Result<String> {
        let mut path = self.word("a name")?;
        while self.take(".") {
            path.push('.');
            path += &self.word("a name")?;
        }
        Ok(path)
    }

    /// Parse a path to a field, which begins with a scope or a name.
    fn reference_path(&mut self) -> Result<String> {
        let place = self.place();
        let path = self.path()?;
        if KEYWORDS.contains(&path.as_str()) {
            return fail(
                place,
                format!("expected the path of a field, found the keyword '{path}'"),
            );
        }
        Ok(path)
    }

    fn value(&mut self) -> Result<Value> {
        match self.peek() {
            Token::Number(_) | Token::Punct("-" | "+") => {
                let number = self.signed_number()?;
                if self.take(".") {
                    // A floating point value, which no attribute uses.
                    if matches!(self.peek(), Token::Number(_)) {
                        self.next();
                    }
                    return Ok(Value::Text(format!("{number}.")));
                }
                Ok(Value::Number(number))
            }
            Token::Quoted(text) => {
                let mut text = text.clone();
                self.next();
                // Adjacent strings are joined, as in C.
                while let Token::Quoted(more) = self.peek() {
                    text += more;
                    self.next();
                }
                Ok(Value::Quoted(text))
            }
            Token::Word(_) => Ok(Value::Text(self.path()?)),
            _ => self.unexpected("a value"),
        }
    }

    fn signed_number(&mut self) -> Result<i128> {
        let mut sign = 1;
        loop {
            if self.take("-") {
                sign = -sign;
            } else if !self.take("+") {
                break;
            }
        }
        match *self.peek() {
            Token::Number(n) => {
                self.next();
                Ok(sign * n)
            }
            _ => self.unexpected("a number"),
        }
    }

    fn trace_block(&mut self, place: At) -> Result<()> {
        if self.saw_trace {
            return fail(place, "a second 'trace' block");
        }
        self.saw_trace = true;
        let mut version = [None, None];
        for (name, at, said) in self.block()? {
            match (name.as_str(), said) {
                ("major", Said::Value(value)) => version[0] = Some(value.number(at, &name)?),
                ("minor", Said::Value(value)) => version[1] = Some(value.number(at, &name)?),
                ("uuid", Said::Value(value)) => {
                    self.trace.uuid = Some(parse_uuid(&value.text(), at)?);
                }
                ("packet.header", Said::Type(kind)) => {
                    self.trace.packet_header = Some(expect_struct(kind, at, &name)?);
                }
                // Unknown attributes are ignored.
                _ => {}
            }
        }
        if version != [Some(1), Some(8)] {
            let [major, minor] = version.map(|v| v.map_or("?".into(), |v| v.to_string()));
            let what = format!("expected CTF 1.8, found {major}.{minor}");
            return fail(place, what);
        }
        self.trace.order = Some(self.native);
        Ok(())
    }

    fn env_block(&mut self) -> Result<()> {
        for (name, at, said) in self.block()? {
            match said {
                Said::Value(value) => self.trace.env.push((name, value.text())),
                Said::Type(_) => return fail(at, format!("env: '{name}' is not a type")),
            }
        }
        Ok(())
    }

    fn clock_block(&mut self, place: At) -> Result<()> {
        let mut clock = Clock::new(String::new());
        for (name, at, said) in self.block()? {
            let Said::Value(value) = said else {
                return fail(at, format!("clock has no type '{name}'"));
            };
            match name.as_str() {
                "name" => clock.name = value.text(),
                "uuid" => clock.uuid = Some(value.text()),
                "freq" => clock.frequency = value.unsigned(at, &name)?,
                "offset_s" => clock.offset_seconds = signed(value.number(at, &name)?),
                "offset" => clock.offset_cycles = signed(value.number(at, &name)?),
                _ => {}
            }
            if clock.frequency == 0 {
                return fail(at, "a clock of frequency 0");
            }
        }
        if clock.name.is_empty() {
            return fail(place, "a clock without a name");
        }
        if self.trace.clocks.iter().any(|c| c.name == clock.name) {
            return fail(place, format!("a second clock named '{}'", clock.name));
        }
        self.trace.clocks.push(clock);
        Ok(())
    }

    fn stream_block(&mut self, place: At) -> Result<()> {
        let mut stream = StreamClass::default();
        for (name, at, said) in self.block()? {
            match (name.as_str(), said) {
                ("id", Said::Value(value)) => stream.id = value.unsigned(at, &name)?,
                ("packet.context", Said::Type(kind)) => {
                    stream.packet_context = Some(expect_struct(kind, at, &name)?);
                }
                ("event.header", Said::Type(kind)) => {
                    stream.event_header = Some(expect_struct(kind, at, &name)?);
                }
                ("event.context", Said::Type(kind)) => {
                    stream.event_context = Some(expect_struct(kind, at, &name)?);
                }
                _ => {}
            }
        }
        if !self.stream_ids.insert(stream.id) {
            return fail(place, format!("a second stream {}", stream.id));
        }
        self.trace.streams.push(stream);
        Ok(())
    }

    fn event_block(&mut self, place: At) -> Result<()> {
        let mut event = EventClass::default();
        let mut stream = None;
        for (name, at, said) in self.block()? {
            match (name.as_str(), said) {
                ("name", Said::Value(value)) => event.name = value.text(),
                ("id", Said::Value(value)) => event.id = value.unsigned(at, &name)?,
                ("stream_id", Said::Value(value)) => stream = Some(value.unsigned(at, &name)?),
                ("loglevel", Said::Value(value)) => {
                    event.log_level = i64::try_from(value.number(at, &name)?).ok();
                }
                ("model.emf.uri", Said::Value(value)) => event.emf_uri = Some(value.text()),
                ("context", Said::Type(kind)) => {
                    event.context = Some(expect_struct(kind, at, &name)?);
                }
                ("fields", Said::Type(kind)) => {
                    event.payload = Some(expect_struct(kind, at, &name)?);
                }
                _ => {}
            }
        }
        if event.name.is_empty() {
            return fail(place, "an event without a name");
        }
        self.events.push((stream, event, place));
        Ok(())
    }

    fn finish(mut self) -> Result<Trace> {
        // Clocks may be declared after the types that name them.
        let clocks = self.trace.clocks.iter().enumerate();
        let clocks: HashMap<&str, usize> = clocks.map(|(i, c)| (c.name.as_str(), i)).collect();
        let order = self
            .clock_names
            .iter()
            .map(|(name, at)| {
                let found = clocks.get(name.as_str()).copied();
                found.ok_or_else(|| Error::new(*at, format!("no clock is named '{name}'")))
            })
            .collect::<Result<Vec<usize>>>()?;
        if self.trace.streams.is_empty() && !self.events.is_empty() {
            self.trace.streams.push(StreamClass::default());
        }
        self.trace.streams.sort_by_key(|s| s.id);
        let streams = self.trace.streams.iter().enumerate();
        let streams: HashMap<u64, usize> = streams.map(|(i, s)| (s.id, i)).collect();
        let several = self.trace.streams.len() > 1;
        for (stream, event, at) in std::mem::take(&mut self.events) {
            if stream.is_none() && several {
                let name = &event.name;
                return fail(
                    at,
                    format!("event '{name}': expected a stream_id, as there are several streams"),
                );
            }
            let stream = stream.unwrap_or_else(|| self.trace.streams[0].id);
            let Some(class) = streams.get(&stream) else {
                return fail(
                    at,
                    format!("event '{}': no stream has id {stream}", event.name),
                );
            };
            self.trace.streams[*class].events.push(event);
        }
        for stream in &mut self.trace.streams {
            stream.events.sort_by_key(|e| e.id);
            if let Some(pair) = stream.events.windows(2).find(|p| p[0].id == p[1].id) {
                return Err(Error::whole(format!(
                    "events '{}' and '{}' of stream {} have the same id {}",
                    pair[0].name, pair[1].name, stream.id, pair[0].id
                )));
            }
        }
        for kind in types_of(&mut self.trace) {
            kind.visit(&mut |kind| {
                if let Type::Int(int) = kind {
                    int.clock = int.clock.and_then(|c| order.get(c).copied());
                }
            });
        }
        Ok(self.trace)
    }

    // ------------------------------------------------------------ declarations

    /// Parse a `typealias`, a `typedef` or the declaration of a named type; return false if none.
    fn declaration(&mut self) -> Result<bool> {
        let Token::Word(word) = self.peek() else {
            return Ok(false);
        };
        match word.as_str() {
            "typealias" => {
                self.next();
                let place = self.place();
                let kind = self.type_only()?;
                let kind = self.dimensions(kind)?;
                self.expect(":=")?;
                let name = self.alias_name()?;
                self.declare("type", &name, &kind, place)?;
            }
            "typedef" => {
                self.next();
                let place = self.place();
                let (base, first) = self.type_and_name()?;
                let mut name = first;
                loop {
                    if SPECIFIERS.contains(&name.as_str()) {
                        return fail(
                            place,
                            format!("expected the name of a type, found the keyword '{name}'"),
                        );
                    }
                    let kind = self.dimensions(base.clone())?;
                    self.charge(&kind)?;
                    if let Type::Array(array) = &kind
                        && matches!(array.length, Length::Field(_))
                        && self.scopes.len() == 1
                    {
                        return fail(
                            place,
                            "expected a number as length, as no structure is around this type",
                        );
                    }
                    self.declare("type", &name, &kind, place)?;
                    if !self.take(",") {
                        break;
                    }
                    name = self.name("the name of a type")?;
                }
            }
            "struct" | "variant" | "enum" => {
                self.type_spec()?;
                // Some producers leave out the semicolon here.
                if matches!(self.peek(), Token::Word(_)) {
                    return Ok(true);
                }
            }
            _ => return Ok(false),
        }
        self.expect(";")?;
        Ok(true)
    }

    /// Declare a type by its name, which must be new among types of its kind in its scope.
    fn declare(&mut self, what: &'static str, name: &str, kind: &Type, at: At) -> Result<()> {
        let scope = self.scopes.last_mut();
        let before = scope.and_then(|scope| scope.insert((what, name.to_owned()), kind.clone()));
        match before {
            Some(_) => fail(at, format!("{what} '{name}' is declared twice")),
            None => Ok(()),
        }
    }

    /// Parse the name of a type, of one or more words.
    fn alias_name(&mut self) -> Result<String> {
        let place = self.place();
        match self.words().as_slice() {
            [] => self.unexpected("the name of a type"),
            [word] if KEYWORDS.contains(&word.as_str()) => {
                let what = format!("expected the name of a type, found the keyword '{word}'");
                fail(place, what)
            }
            words => Ok(words.join(" ")),
        }
    }

    /// Count the nodes of a type that is about to be copied.
    fn charge(&mut self, kind: &Type) -> Result<()> {
        self.nodes = self.nodes.saturating_add(kind.size());
        if self.nodes > MAX_NODES {
            return fail(
                self.place(),
                format!("the types expand to more than {MAX_NODES} fields"),
            );
        }
        if kind.depth() > MAX_DEPTH {
            return fail(
                self.place(),
                format!("types nested deeper than {MAX_DEPTH} levels"),
            );
        }
        Ok(())
    }

    fn lookup(&mut self, what: &'static str, name: &str, at: At) -> Result<Type> {
        let key = (what, name.to_owned());
        let found = self.scopes.iter().rev().find_map(|scope| scope.get(&key));
        let Some(found) = found.cloned() else {
            return fail(at, format!("no {what} is named '{name}'"));
        };
        self.charge(&found)?;
        Ok(found)
    }

    // ------------------------------------------------------------ types

    /// Parse a type that no name follows.
    fn type_only(&mut self) -> Result<Type> {
        if let Some(kind) = self.keyword_type()? {
            return Ok(kind);
        }
        let at = self.place();
        let name = self.alias_name()?;
        self.named(&name, at)
    }

    fn type_spec(&mut self) -> Result<Type> {
        match self.keyword_type()? {
            Some(kind) => Ok(kind),
            None => self.unexpected("a type"),
        }
    }

    fn named(&mut self, name: &str, at: At) -> Result<Type> {
        let name = name.strip_prefix("const ").unwrap_or(name);
        self.lookup("type", name, at)
    }

    /// Parse a type and the name that follows it.
    fn type_and_name(&mut self) -> Result<(Type, String)> {
        if let Some(kind) = self.keyword_type()? {
            let name = self.name("the name of a field")?;
            return Ok((kind, name));
        }
        let at = self.place();
        let mut words = self.words();
        match words.pop() {
            Some(name) if KEYWORDS.contains(&name.as_str()) => {
                fail(at, format!("expected a name, found the keyword '{name}'"))
            }
            Some(name) if !words.is_empty() && name != "*" => {
                let kind = self.named(&words.join(" "), at)?;
                Ok((kind, name))
            }
            Some(_) => self.unexpected("the name of a field"),
            None => self.unexpected("a type"),
        }
    }

    fn keyword_type(&mut self) -> Result<Option<Type>> {
        if self.is_word("const")
            && matches!(self.peek_next(), Token::Word(w)
            if matches!(w.as_str(), "struct" | "variant" | "enum" | "integer" | "floating_point" | "string"))
        {
            self.next();
        }
        let Token::Word(word) = self.peek() else {
            return Ok(None);
        };
        let parse: fn(&mut Self) -> Result<Type> = match word.as_str() {
            "struct" => Self::structure,
            "variant" => Self::variant,
            "enum" => Self::enumeration,
            "integer" => Self::integer,
            "floating_point" => Self::floating_point,
            "string" => Self::string,
            _ => return Ok(None),
        };
        self.next();
        if self.depth >= MAX_DEPTH {
            let what = format!("nested deeper than {MAX_DEPTH} levels");
            return fail(self.place(), what);
        }
        self.depth += 1;
        let kind = parse(self)?;
        self.depth -= 1;
        Ok(Some(kind))
    }

    fn structure(&mut self) -> Result<Type> {
        let at = self.place();
        let name = if self.is_word("align") {
            None
        } else {
            self.optional_name()?
        };
        if !self.is("{") {
            return match name {
                Some(name) => self.lookup("struct", &name, at),
                None => self.unexpected("'{' or the name of a struct"),
            };
        }
        let (scope, fields) = self.fields()?;
        check_tags(&fields)?;
        let mut kind = Struct {
            fields,
            min_align: 1,
            scope,
        };
        if self.is_word("align") {
            self.next();
            self.expect("(")?;
            let place = self.place();
            let align = self.signed_number()?;
            kind.min_align = check_align(align, place)?;
            self.expect(")")?;
        }
        let kind = Type::Struct(kind);
        if let Some(name) = name {
            self.declare("struct", &name, &kind, at)?;
        }
        Ok(kind)
    }

    /// Parse fields between braces; return the number of that text with them.
    fn fields(&mut self) -> Result<(usize, Vec<Field>)> {
        self.expect("{")?;
        self.scopes.push(Scope::default());
        self.bodies += 1;
        let scope = self.bodies;
        let before = self.body.take();
        self.body = Some(Lexical {
            scope,
            fields: 0,
            outer: before.clone().map(Arc::new),
        });
        let mut fields: Vec<Field> = Vec::new();
        let mut names = HashSet::new();
        while !self.take("}") {
            if (self.is_word("typealias") || self.is_word("typedef")) && self.declaration()? {
                continue;
            }
            let at = self.place();
            // A named type may be declared among the fields: `struct name { ... };`
            let (base, mut name) = match self.keyword_type()? {
                Some(_) if self.take(";") => continue,
                Some(kind) => (kind, self.name("the name of a field")?),
                None => self.type_and_name()?,
            };
            loop {
                let kind = self.dimensions(base.clone())?;
                self.charge(&kind)?;
                if !names.insert(name.clone()) {
                    return fail(at, format!("a second field '{name}'"));
                }
                fields.push(Field {
                    name,
                    kind,
                    slot: None,
                });
                if let Some(body) = &mut self.body {
                    body.fields += 1;
                }
                if !self.take(",") {
                    break;
                }
                name = self.name("the name of a field")?;
            }
            self.expect(";")?;
        }
        self.scopes.pop();
        self.body = before;
        Ok((scope, fields))
    }

    /// Make a reference from a path to a field, as written.
    fn reference(&self, path: &str, (line, column): At) -> Reference {
        Reference::Unresolved(Box::new(Unresolved {
            path: Path::Names(path.split('.').map(str::to_owned).collect()),
            place: Place::Text { line, column },
            lexical: self.body.clone(),
        }))
    }

    /// Make an array for each `[length]` that follows; the first one written is the outermost.
    fn dimensions(&mut self, base: Type) -> Result<Type> {
        let mut lengths = Vec::new();
        while self.take("[") {
            let at = self.place();
            let length = if matches!(self.peek(), Token::Number(_) | Token::Punct("-" | "+")) {
                let number = self.signed_number()?;
                Length::Fixed(
                    u64::try_from(number)
                        .map_err(|_| Error::new(at, "an array of negative length"))?,
                )
            } else {
                let path = self.reference_path()?;
                Length::Field(self.reference(&path, at))
            };
            self.expect("]")?;
            lengths.push(length);
            if lengths.len() > MAX_DEPTH {
                return self.unexpected("fewer dimensions");
            }
        }
        Ok(lengths.into_iter().rev().fold(base, |element, length| {
            Type::Array(Box::new(Array {
                element,
                length,
                min_align: 1,
                uuid: false,
            }))
        }))
    }

    fn variant(&mut self) -> Result<Type> {
        let at = self.place();
        let name = self.optional_name()?;
        let mut tag = None;
        if self.take("<") {
            let place = self.place();
            let path = self.reference_path()?;
            tag = Some(self.reference(&path, place));
            self.expect(">")?;
        }
        if !self.is("{") {
            let Some(name) = name else {
                return self.unexpected("'{' or the name of a variant");
            };
            let mut found = self.lookup("variant", &name, at)?;
            if let (Type::Variant(variant), Some(tag)) = (&mut found, tag) {
                variant.tag = Some(tag);
            }
            return Ok(found);
        }
        let (_, options) = self.fields()?;
        if options.is_empty() {
            return fail(at, "a variant without options");
        }
        let kind = Type::Variant(Variant {
            tag,
            options,
            choices: Vec::new(),
        });
        if let Some(name) = name {
            self.declare("variant", &name, &kind, at)?;
        }
        Ok(kind)
    }

    fn enumeration(&mut self) -> Result<Type> {
        let at = self.place();
        let name = self.optional_name()?;
        let mut int = if self.take(":") {
            let place = self.place();
            match self.type_only()? {
                Type::Int(int) if int.mappings.is_empty() => int,
                _ => {
                    return fail(place, "an enum must be made of integers of at most 64 bits");
                }
            }
        } else if self.is("{") {
            match self.named("int", at) {
                Ok(Type::Int(int)) if int.mappings.is_empty() => int,
                _ => {
                    return fail(
                        at,
                        "an enum without a type, and no integer type 'int' to take",
                    );
                }
            }
        } else {
            let Some(name) = name else {
                return self.unexpected("'{', ':' or the name of an enum");
            };
            return self.lookup("enum", &name, at);
        };
        let place = self.place();
        let mappings = self.mappings()?;
        if mappings.is_empty() {
            return fail(place, "an enum without labels");
        }
        let (low, high) = if int.signed {
            (-(1_i128 << (int.bits - 1)), (1_i128 << (int.bits - 1)) - 1)
        } else {
            (0, (1_i128 << int.bits) - 1)
        };
        if let Some(m) = mappings.iter().find(|m| m.low < low || high < m.high) {
            return fail(
                place,
                format!(
                    "label '{}': expected values from {low} to {high}, which the integer holds",
                    m.label
                ),
            );
        }
        int.mappings = mappings;
        let kind = Type::Int(int);
        if let Some(name) = name {
            self.declare("enum", &name, &kind, at)?;
        }
        Ok(kind)
    }

    fn mappings(&mut self) -> Result<Vec<Mapping>> {
        self.expect("{")?;
        let mut mappings = Vec::new();
        let mut free = 0;
        while !self.take("}") {
            let label = match self.peek() {
                Token::Word(label) | Token::Quoted(label) => label.clone(),
                _ => return self.unexpected("a label or '}'"),
            };
            self.next();
            let (mut low, mut high) = (free, free);
            if self.take("=") {
                let at = self.place();
                low = self.signed_number()?;
                high = low;
                if self.take("...") {
                    high = self.signed_number()?;
                }
                if high < low {
                    return fail(at, format!("an empty range {low} ... {high}"));
                }
            }
            free = high + 1;
            mappings.push(Mapping { label, low, high });
            if !self.take(",") && !self.is("}") {
                return self.unexpected("',' or '}'");
            }
        }
        Ok(mappings)
    }

    /// Parse the attributes of a type (`name { name = value; ... }`).
    fn attributes(&mut self) -> Result<Vec<(String, At, Value)>> {
        self.expect("{")?;
        let mut found = Vec::new();
        while !self.take("}") {
            let at = self.place();
            let name = self.path()?;
            self.expect("=")?;
            found.push((name, at, self.value()?));
            self.expect(";")?;
        }
        Ok(found)
    }

    fn integer(&mut self) -> Result<Type> {
        let place = self.place();
        let mut bits = None;
        let mut align = None;
        let mut int = Int::unsigned(0, 1, self.native);
        for (name, at, value) in self.attributes()? {
            match name.as_str() {
                "size" => {
                    let size = value.unsigned(at, &name)?;
                    let fits = u32::try_from(size).ok();
                    bits = fits.filter(|b| (1..=MAX_BITS).contains(b));
                    if bits.is_none() {
                        let what = format!("an integer of {size} bits: expected 1 to {MAX_BITS}");
                        return fail(at, what);
                    }
                }
                "align" => align = Some(check_align(value.number(at, &name)?, at)?),
                "signed" => int.signed = boolean(&value.bare(at, &name)?, at)?,
                "byte_order" => int.order = self.byte_order(&value, at)?,
                "encoding" => int.text = encoding(&value.bare(at, &name)?, at)?,
                "base" => int.base = base(&value.bare(at, &name)?, at)?,
                "map" => int.clock = Some(self.clock_reference(&value.text(), at)?),
                _ => {}
            }
        }
        let Some(bits) = bits else {
            return fail(place, "an integer without a size");
        };
        int.bits = bits;
        int.align = align.unwrap_or(if bits.is_multiple_of(8) { 8 } else { 1 });
        if bits <= 64 {
            return Ok(Type::Int(int));
        }
        if int.clock.is_some() {
            return fail(
                place,
                format!("a clock's value of {bits} bits: expected 1 to 64"),
            );
        }
        Ok(Type::WideInt(int))
    }

    /// Return the number of a clock in `clock_names`, which its index replaces once all are known.
    fn clock_reference(&mut self, path: &str, at: At) -> Result<usize> {
        let name = path
            .strip_prefix("clock.")
            .and_then(|rest| rest.strip_suffix(".value"));
        let Some(name) = name else {
            return fail(
                at,
                format!("map: expected clock.<name>.value, found '{path}'"),
            );
        };
        let next = self.clock_names.len();
        let number = *self.clock_numbers.entry(name.to_owned()).or_insert(next);
        if number == next {
            self.clock_names.push((name.to_owned(), at));
        }
        Ok(number)
    }

    fn byte_order(&self, value: &Value, at: At) -> Result<ByteOrder> {
        let text = value.text();
        if text == "native" {
            return Ok(self.native);
        }
        named_byte_order(&text, at)
    }

    fn floating_point(&mut self) -> Result<Type> {
        let place = self.place();
        let (mut exponent, mut mantissa) = (0, 0);
        let mut align = None;
        let mut order = self.native;
        for (name, at, value) in self.attributes()? {
            match name.as_str() {
                "exp_dig" => exponent = value.unsigned(at, &name)?,
                "mant_dig" => mantissa = value.unsigned(at, &name)?,
                "align" => align = Some(check_align(value.number(at, &name)?, at)?),
                "byte_order" => order = self.byte_order(&value, at)?,
                _ => {}
            }
        }
        let bits = match (exponent, mantissa) {
            (8, 24) => 32,
            (11, 53) => 64,
            _ => {
                return fail(
                    place,
                    format!(
                        "a floating point number of exp_dig {exponent}, mant_dig {mantissa}: \
                         expected 8, 24 or 11, 53"
                    ),
                );
            }
        };
        let stored = Int::unsigned(bits, align.unwrap_or(8), order);
        Ok(Type::Float(stored))
    }

    fn string(&mut self) -> Result<Type> {
        if self.is("{") {
            for (name, at, value) in self.attributes()? {
                if name == "encoding" {
                    encoding(&value.bare(at, &name)?, at)?;
                }
            }
        }
        Ok(Type::Text)
    }
}

/// Check variants whose tag is a field next to them: some label of the tag must be an option, also
/// in types that nothing uses.
fn check_tags(fields: &[Field]) -> Result<()> {
    let mut tags: HashMap<&str, &Int> = HashMap::new();
    for field in fields {
        match &field.kind {
            Type::Int(tag) if !tag.mappings.is_empty() => {
                tags.insert(&field.name, tag);
            }
            Type::Variant(variant) => {
                if let Some(Reference::Unresolved(tag)) = &variant.tag
                    && let Path::Names(names) = &tag.path
                    && let [name] = names.as_slice()
                    && let Some(known) = tags.get(name.as_str())
                {
                    let options: HashSet<&str> =
                        variant.options.iter().map(|o| o.name.as_str()).collect();
                    if !known
                        .mappings
                        .iter()
                        .any(|m| options.contains(m.label.as_str()))
                    {
                        return fail(
                            tag.place.clone(),
                            format!("no label of '{name}' is an option of the variant"),
                        );
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Find the `byte_order` of the trace block, which applies to types declared before it, too.
fn native_byte_order(tokens: &[(Token, At)]) -> Result<ByteOrder> {
    let mut depth = 0_usize;
    let mut in_trace = false;
    for (i, (token, at)) in tokens.iter().enumerate() {
        match token {
            Token::Punct("{") => {
                if depth == 0 {
                    in_trace = i > 0 && tokens[i - 1].0 == Token::Word("trace".into());
                }
                depth += 1;
            }
            Token::Punct("}") => depth = depth.saturating_sub(1),
            Token::Word(word) if in_trace && depth == 1 && word == "byte_order" => {
                return match tokens.get(i + 2).map(|t| &t.0) {
                    Some(Token::Word(order)) => named_byte_order(order, *at),
                    _ => fail(*at, "byte_order: expected le or be"),
                };
            }
            _ => {}
        }
    }
    // Nothing can be decoded without a byte order, but metadata that lack the whole block get the
    // clearer error of the parser.
    match tokens.iter().find(|t| t.0 == Token::Word("trace".into())) {
        Some((_, at)) if in_trace || depth > 0 => {
            fail(*at, "the 'trace' block has no byte_order, or never ends")
        }
        _ => Ok(ByteOrder::Little),
    }
}

fn named_byte_order(text: &str, at: At) -> Result<ByteOrder> {
    match text {
        "le" => Ok(ByteOrder::Little),
        "be" | "network" => Ok(ByteOrder::Big),
        _ => fail(at, format!("byte_order: expected le or be, found '{text}'")),
    }
}

fn boolean(value: &str, at: At) -> Result<bool> {
    match value {
        "true" | "TRUE" | "1" => Ok(true),
        "false" | "FALSE" | "0" => Ok(false),
        other => fail(at, format!("expected true or false, found '{other}'")),
    }
}

/// Parse the base in which to show a number (CTF 1.8, 4.1.5).
fn base(value: &str, at: At) -> Result<u8> {
    match value {
        "decimal" | "dec" | "d" | "i" | "u" | "10" => Ok(10),
        "hexadecimal" | "hex" | "x" | "X" | "p" | "16" => Ok(16),
        "octal" | "oct" | "o" | "8" => Ok(8),
        "binary" | "bin" | "b" | "2" => Ok(2),
        other => fail(
            at,
            format!("base: expected decimal, hexadecimal, octal or binary, found '{other}'"),
        ),
    }
}

fn encoding(value: &str, at: At) -> Result<bool> {
    match value {
        "UTF8" | "utf8" | "UTF-8" | "utf-8" | "ASCII" | "ascii" => Ok(true),
        "none" | "NONE" => Ok(false),
        other => fail(
            at,
            format!("encoding: expected none, UTF8 or ASCII, found '{other}'"),
        ),
    }
}

fn check_align(align: i128, at: At) -> Result<u64> {
    match u64::try_from(align) {
        Ok(a) if a.is_power_of_two() && a <= 1 << 20 => Ok(a),
        _ => fail(at, format!("align: expected a power of two, found {align}")),
    }
}

/// Restore the sign of an offset: some versions of `LTTng` print it as an unsigned 64-bit number.
fn signed(number: i128) -> i128 {
    if number > i128::from(i64::MAX) {
        number - (1 << 64)
    } else {
        number
    }
}

fn expect_struct(kind: Type, at: At, name: &str) -> Result<Type> {
    match kind {
        Type::Struct(_) => Ok(kind),
        _ => fail(at, format!("{name} must be a struct")),
    }
}

fn parse_uuid(text: &str, at: At) -> Result<[u8; 16]> {
    let digits: Vec<u8> = text.bytes().filter(|b| *b != b'-').collect();
    let mut uuid = [0; 16];
    let valid = digits.len() == 32 && digits.iter().all(u8::is_ascii_hexdigit);
    if !valid {
        return fail(at, format!("'{text}' is not a UUID"));
    }
    for (byte, pair) in uuid.iter_mut().zip(digits.chunks(2)) {
        let digit = |c: u8| char::from(c).to_digit(16).unwrap_or(0);
        *byte = u8::try_from(digit(pair[0]) * 16 + digit(pair[1])).unwrap_or(0);
    }
    Ok(uuid)
}
