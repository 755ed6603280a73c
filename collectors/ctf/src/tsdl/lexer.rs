//! Split TSDL text into tokens.

use crate::error::{Result, fail};

/// Line and column, from 1.
pub(super) type At = (u32, u32);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Word(String),
    Number(i128),
    Quoted(String),
    Punct(&'static str),
    End,
}

impl Token {
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Word(w) => format!("'{w}'"),
            Self::Number(n) => format!("'{n}'"),
            Self::Quoted(s) => format!("\"{s}\""),
            Self::Punct(p) => format!("'{p}'"),
            Self::End => "the end of the metadata".into(),
        }
    }
}

const PUNCTUATION: [&str; 19] = [
    "...", ":=", "->", "{", "}", "[", "]", "(", ")", "<", ">", ";", ":", ",", "=", ".", "*", "-",
    "+",
];

pub(super) fn tokens(text: &str) -> Result<Vec<(Token, At)>> {
    let mut lexer = Lexer {
        text,
        at: 0,
        place: (1, 1),
    };
    let mut found = Vec::with_capacity(text.len() / 4);
    loop {
        lexer.blank()?;
        let place = lexer.place;
        let token = lexer.token()?;
        let end = token == Token::End;
        found.push((token, place));
        if end {
            return Ok(found);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    place: At,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip(&mut self, bytes: usize) {
        for b in &self.text.as_bytes()[self.at..self.at + bytes] {
            if *b == b'\n' {
                self.place = (self.place.0 + 1, 1);
            } else {
                self.place.1 += 1;
            }
        }
        self.at += bytes;
    }

    fn blank(&mut self) -> Result<()> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            if trimmed.len() < rest.len() {
                self.skip(rest.len() - trimmed.len());
            } else if let Some(comment) = rest.strip_prefix("/*") {
                let Some(end) = comment.find("*/") else {
                    return fail(self.place, "a comment that never ends");
                };
                self.skip(end + 4);
            } else if rest.starts_with("//") {
                self.skip(rest.find('\n').unwrap_or(rest.len()));
            } else {
                return Ok(());
            }
        }
    }

    fn token(&mut self) -> Result<Token> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return Ok(Token::End);
        };
        if first.is_ascii_alphabetic() || first == '_' {
            let word = self.word();
            if word == "L" && self.rest().starts_with(['"', '\'']) {
                return self.quoted();
            }
            return Ok(Token::Word(word.to_owned()));
        }
        if first.is_ascii_digit() {
            return self.number();
        }
        if first == '"' || first == '\'' {
            return self.quoted();
        }
        for punct in PUNCTUATION {
            if rest.starts_with(punct) {
                self.skip(punct.len());
                return Ok(Token::Punct(punct));
            }
        }
        fail(self.place, format!("unexpected character {first:?}"))
    }

    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let length = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        self.skip(length);
        &rest[..length]
    }

    fn number(&mut self) -> Result<Token> {
        let place = self.place;
        let word = self.word();
        let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
        let lower = digits.to_ascii_lowercase();
        let parsed = if let Some(hex) = lower.strip_prefix("0x") {
            i128::from_str_radix(hex, 16)
        } else if let Some(binary) = lower.strip_prefix("0b") {
            i128::from_str_radix(binary, 2)
        } else if digits.len() > 1 && digits.starts_with('0') {
            i128::from_str_radix(digits, 8)
        } else {
            digits.parse()
        };
        match parsed {
            Ok(n) if n <= i128::from(u64::MAX) => Ok(Token::Number(n)),
            _ => fail(
                place,
                format!("'{word}' is not a number of at most 64 bits"),
            ),
        }
    }

    fn quoted(&mut self) -> Result<Token> {
        let place = self.place;
        let (quote, body) = self.rest().split_at(1);
        let mut value = String::new();
        let mut chars = body.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                c if quote.starts_with(c) => {
                    self.skip(at + 2);
                    return Ok(Token::Quoted(value));
                }
                '\n' => break,
                '\\' => match chars.next().map(|(_, c)| c) {
                    Some('n') => value.push('\n'),
                    Some('t') => value.push('\t'),
                    Some('r') => value.push('\r'),
                    Some('0') => value.push('\0'),
                    Some('a') => value.push('\x07'),
                    Some('b') => value.push('\x08'),
                    Some('f') => value.push('\x0c'),
                    Some('v') => value.push('\x0b'),
                    Some(other) => value.push(other),
                    None => break,
                },
                _ => value.push(c),
            }
        }
        fail(place, "a string that never ends")
    }
}
