//! Parse TSDL, the language of CTF 1.8 metadata, to the class model.

mod lexer;
mod names;
mod parser;

use crate::error::Result;
use crate::model::Trace;
use crate::resolve::resolve;

/// Parse metadata text.
///
/// # Errors
///
/// The first place that is not TSDL or contradicts itself, with line and column.
pub fn parse(text: &str) -> Result<Trace> {
    let mut trace = parser::Parser::new(text)?.parse()?;
    names::give_roles(&mut trace)?;
    names::give_clocks(&mut trace)?;
    resolve(&mut trace)?;
    names::publish(&mut trace);
    Ok(trace)
}

#[cfg(test)]
mod tests;
