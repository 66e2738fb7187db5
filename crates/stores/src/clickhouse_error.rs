//! ClickHouse's errors as decisions. The HTTP status does not separate them; the numeric code does.

use clickhouse::error::Error;
use tollgate_domain::ports::{InsertError, PortError};

/// What an error says about other rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// This row is refused for what it is.
    ThisRow,
    /// Every row would be refused: drift of the deployed schema, configuration, credentials.
    EveryRow,
    /// Nothing is known against any row.
    NotNow,
}

/// Every code with a class of its own; a code that is not here is [`ErrorClass::NotNow`]. Provoked on engine 26.9.
#[rustfmt::skip]
const CLASSES: [(u32, ErrorClass); 23] = [
    (6, ErrorClass::ThisRow),     // CANNOT_PARSE_TEXT
    (26, ErrorClass::ThisRow),    // CANNOT_PARSE_QUOTED_STRING
    (27, ErrorClass::ThisRow),    // CANNOT_PARSE_INPUT_ASSERTION_FAILED
    (41, ErrorClass::ThisRow),    // CANNOT_PARSE_DATETIME
    (53, ErrorClass::ThisRow),    // TYPE_MISMATCH
    (69, ErrorClass::ThisRow),    // ARGUMENT_OUT_OF_BOUND
    (131, ErrorClass::ThisRow),   // TOO_LARGE_STRING_SIZE
    (349, ErrorClass::ThisRow),   // CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN
    (376, ErrorClass::ThisRow),   // CANNOT_PARSE_UUID
    (395, ErrorClass::ThisRow),   // FUNCTION_THROW_IF_VALUE_IS_NON_ZERO: a view threw; the base row may be stored all the same
    (469, ErrorClass::ThisRow),   // VIOLATED_CONSTRAINT
    (691, ErrorClass::ThisRow),   // UNKNOWN_ELEMENT_OF_ENUM
    (16, ErrorClass::EveryRow),   // NO_SUCH_COLUMN_IN_TABLE
    (47, ErrorClass::EveryRow),   // UNKNOWN_IDENTIFIER
    (60, ErrorClass::EveryRow),   // UNKNOWN_TABLE
    (62, ErrorClass::EveryRow),   // SYNTAX_ERROR
    (73, ErrorClass::EveryRow),   // UNKNOWN_FORMAT
    (81, ErrorClass::EveryRow),   // UNKNOWN_DATABASE
    (115, ErrorClass::EveryRow),  // UNKNOWN_SETTING
    (117, ErrorClass::EveryRow),  // INCORRECT_DATA: the columns of the header do not fit the table
    (164, ErrorClass::EveryRow),  // READONLY
    (497, ErrorClass::EveryRow),  // ACCESS_DENIED
    (516, ErrorClass::EveryRow),  // AUTHENTICATION_FAILED
];

/// The class of a ClickHouse error code.
pub fn class_of(code: u32) -> ErrorClass {
    CLASSES.iter().find(|(known, _)| *known == code).map_or(ErrorClass::NotNow, |(_, class)| *class)
}

/// The code in ClickHouse's message `Code: 27. DB::Exception: …`.
fn code_of(message: &str) -> Option<u32> {
    let digits = message.split_once("Code: ")?.1;
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits.get(..end)?.parse().ok()
}

/// The decision that an error of an insert asks for.
pub(crate) fn decide_insert(error: &Error) -> InsertError {
    match error {
        Error::BadResponse(message) => match code_of(message) {
            Some(code) if class_of(code) == ErrorClass::ThisRow => {
                InsertError::Poison { code, message: message.clone() }
            }
            _ => InsertError::Port(decide("INSERT", error)),
        },
        _ => InsertError::Port(decide("INSERT", error)),
    }
}

/// The decision that an error of any statement asks for. The text holds the code and no data.
pub(crate) fn decide(operation: &str, error: &Error) -> PortError {
    match error {
        Error::BadResponse(message) => match code_of(message) {
            Some(code) if class_of(code) == ErrorClass::NotNow => {
                PortError::NotNow(format!("{operation}: ClickHouse code {code}"))
            }
            Some(code) => PortError::Broken(format!("{operation}: ClickHouse code {code}")),
            None => PortError::NotNow(format!("{operation}: an answer of HTTP without a ClickHouse code")),
        },
        // Found by the client before anything was sent: the deployed table is not the one that this version knows.
        Error::SchemaMismatch(what) => PortError::Broken(format!("{operation}: the table has another schema: {what}")),
        Error::TimedOut => PortError::Unknown(format!("{operation}: timed out")),
        Error::Network(_) => PortError::Unknown(format!("{operation}: the connection failed")),
        Error::InvalidParams(_) | Error::Unsupported(_) => {
            PortError::Broken(format!("{operation}: the client refuses its settings"))
        }
        _ => PortError::Unknown(format!("{operation}: the answer cannot be read")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_from_messages_and_unknown_ones_are_not_now() {
        let insert = |message: &str| decide_insert(&Error::BadResponse(message.to_owned()));
        assert!(matches!(insert("Code: 469. DB::Exception: x"), InsertError::Poison { code: 469, .. }));
        assert!(matches!(insert("Code: 60. DB::Exception: x"), InsertError::Port(PortError::Broken(_))));
        assert!(matches!(insert("Code: 252. DB::Exception: x"), InsertError::Port(PortError::NotNow(_))));
        assert!(matches!(insert("Code: 999999. DB::Exception: x"), InsertError::Port(PortError::NotNow(_))));
        assert!(matches!(insert("502 Bad Gateway"), InsertError::Port(PortError::NotNow(_))));
        assert!(matches!(decide_insert(&Error::TimedOut), InsertError::Port(PortError::Unknown(_))));
        assert!(matches!(
            decide_insert(&Error::SchemaMismatch(String::new())),
            InsertError::Port(PortError::Broken(_))
        ));
        for code in [159, 201, 202, 241, 243, 252, 394] {
            assert_eq!(class_of(code), ErrorClass::NotNow, "{code}");
        }
    }

    #[test]
    fn no_decision_s_text_holds_clickhouse_s_words() {
        for code in [252, 60] {
            let error = Error::BadResponse(format!("Code: {code}. DB::Exception: secret"));
            assert!(!decide("INSERT", &error).to_string().contains("secret"));
        }
    }
}
