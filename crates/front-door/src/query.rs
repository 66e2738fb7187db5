//! A request's query string: every parameter known, given once and of its form, else everything that is wrong at once.

use std::borrow::Cow;

use http::Uri;
use tollgate_domain::problem::Problem;

use crate::answer::{ErrorKind, Refusal};

/// Characters of an unknown parameter's name that are told back.
const MAX_NAME_CHARS: usize = 64;

/// The parameters that were not asked for yet, and what is wrong so far.
pub(crate) struct Query<'u> {
    given: Vec<(Cow<'u, str>, Cow<'u, str>)>,
    problems: Vec<Problem>,
}

impl<'u> Query<'u> {
    pub(crate) fn of(uri: &'u Uri) -> Self {
        let given = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).collect();
        Self { given, problems: Vec::new() }
    }

    /// The parameter `name` as `parse` reads it; `None` when it was not given, or not well. `expected` completes the
    /// sentence "send …".
    pub(crate) fn take<T>(
        &mut self,
        name: &'static str,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let (asked, rest) = std::mem::take(&mut self.given).into_iter().partition(|(given, _)| given == name);
        self.given = rest;
        let asked: Vec<_> = asked;
        let problem = |code, what| Problem::new(code, name, what, format!("send {expected}"));
        match asked.as_slice() {
            [] => None,
            [(_, value)] => {
                let value = parse(value);
                if value.is_none() {
                    self.problems.push(problem("malformed_parameter", "is not of its form"));
                }
                value
            }
            _ => {
                self.problems.push(problem("repeated_parameter", "is given more than once"));
                None
            }
        }
    }

    /// Refuses the request if anything was wrong, or if a parameter is left that nobody asked for.
    pub(crate) fn finish(mut self) -> Result<(), Refusal> {
        for (name, _) in &self.given {
            let name: String = name.chars().take(MAX_NAME_CHARS).collect();
            self.problems.push(Problem::new("unknown_parameter", name, "is not known here", "leave it out"));
        }
        if self.problems.is_empty() {
            Ok(())
        } else {
            Err(Refusal::of_problems(ErrorKind::InvalidQuery, self.problems))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<(Option<u8>, Option<bool>), Refusal> {
        let uri: Uri = format!("/x{query}").parse().unwrap();
        let mut query = Query::of(&uri);
        let wait = query.take("wait", "a number", |text| text.parse().ok());
        let partial = query.take("partial", "true or false", |text| text.parse().ok());
        query.finish().map(|()| (wait, partial))
    }

    #[test]
    fn known_parameters_are_read_in_any_order_and_spelling() {
        assert_eq!(read(""), Ok((None, None)));
        assert_eq!(read("?"), Ok((None, None)));
        assert_eq!(read("?partial=true&wait=7"), Ok((Some(7), Some(true))));
        assert_eq!(read("?w%61it=%37"), Ok((Some(7), None)));
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        assert!(read("?wait=").is_err());
        assert!(read("?wait").is_err());
        let refusal = read("?wait=x&partial=true&partial=false&colour=1&=").unwrap_err();
        assert_eq!(refusal.kind(), ErrorKind::InvalidQuery);
        let told: Vec<_> = refusal.problems().iter().map(|problem| (problem.code, problem.field.as_str())).collect();
        assert_eq!(
            told,
            [
                ("malformed_parameter", "wait"),
                ("repeated_parameter", "partial"),
                ("unknown_parameter", "colour"),
                ("unknown_parameter", ""),
            ]
        );
    }
}
