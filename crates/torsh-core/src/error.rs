//! The error type: what failed, on which operands, and what to do about it.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::borrow::Cow;
use std::fmt;
use std::panic::Location;

/// The result of everything that can fail.
pub type Result<T, E = TorshError> = std::result::Result<T, E>;

/// What an error of an operation knows about itself.
#[derive(Debug)]
pub struct ErrorInfo {
    /// The operation, by PyTorch's name.
    pub op: Cow<'static, str>,
    /// What was expected and what was there.
    pub message: String,
    /// Every operand as `float32[2, 3] cpu`.
    pub operands: Vec<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// Where the call was made.
    pub location: &'static Location<'static>,
    /// Captured when `RUST_BACKTRACE` or `RUST_LIB_BACKTRACE` asks for it.
    pub backtrace: Backtrace,
}

/// Everything that can go wrong. `Debug` prints the same text as `Display`, so that `main() ->
/// Result<()>` and `unwrap` show something to read.
#[non_exhaustive]
pub enum TorshError {
    /// The device has no memory left for a request.
    OutOfMemory,
    /// The device is not there; the text says what is missing.
    DeviceNotAvailable(String),
    /// Shapes that do not go together.
    ShapeMismatch(Box<ErrorInfo>),
    /// Operands on different devices.
    DeviceMismatch(Box<ErrorInfo>),
    /// A dtype that does not fit, or that the operation has no kernel for.
    DTypeMismatch(Box<ErrorInfo>),
    /// An argument outside of what the operation accepts.
    InvalidArgument(Box<ErrorInfo>),
    /// An index or dimension out of range.
    Index(Box<ErrorInfo>),
    /// A rule of automatic differentiation was broken.
    Autograd(Box<ErrorInfo>),
    /// Reading or writing failed.
    Io(Box<std::io::Error>),
    /// A file or text is not in its format.
    Format(Box<ErrorInfo>),
    /// Anything else, as text.
    Other(String),
}

macro_rules! constructors {
    ($($(#[$m:meta])* $name:ident => $variant:ident;)*) => {$(
        $(#[$m])*
        #[track_caller]
        #[cold]
        pub fn $name(op: impl Into<Cow<'static, str>>, message: impl Into<String>) -> TorshError {
            TorshError::$variant(ErrorInfo::new(op.into(), message.into())).made()
        }
    )*};
}

impl ErrorInfo {
    #[track_caller]
    fn new(op: Cow<'static, str>, message: String) -> Box<ErrorInfo> {
        Box::new(ErrorInfo {
            op,
            message,
            operands: Vec::new(),
            hint: None,
            location: Location::caller(),
            backtrace: Backtrace::capture(),
        })
    }
}

impl TorshError {
    constructors! {
        /// Shapes that do not go together. `op` may be empty: the choke point fills it in.
        shape => ShapeMismatch;
        /// Operands on different devices.
        device => DeviceMismatch;
        /// A dtype that does not fit.
        dtype => DTypeMismatch;
        /// An argument outside of what is accepted.
        invalid => InvalidArgument;
        /// An index or dimension out of range.
        index => Index;
        /// A rule of automatic differentiation was broken.
        autograd => Autograd;
        /// Not in its format.
        format => Format;
    }

    /// Honours `TORSH_PANIC_ON_ERR=1`: a debugger or backtrace then sees where the error is made.
    #[track_caller]
    fn made(self) -> TorshError {
        static PANIC: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
        if *PANIC.get_or_init(|| std::env::var_os("TORSH_PANIC_ON_ERR").is_some_and(|v| v == "1")) {
            panic!("{self}");
        }
        self
    }

    /// What the error knows, where it is an operation's.
    pub fn info(&self) -> Option<&ErrorInfo> {
        match self {
            TorshError::ShapeMismatch(i)
            | TorshError::DeviceMismatch(i)
            | TorshError::DTypeMismatch(i)
            | TorshError::InvalidArgument(i)
            | TorshError::Index(i)
            | TorshError::Autograd(i)
            | TorshError::Format(i) => Some(i),
            _ => None,
        }
    }

    fn info_mut(&mut self) -> Option<&mut ErrorInfo> {
        match self {
            TorshError::ShapeMismatch(i)
            | TorshError::DeviceMismatch(i)
            | TorshError::DTypeMismatch(i)
            | TorshError::InvalidArgument(i)
            | TorshError::Index(i)
            | TorshError::Autograd(i)
            | TorshError::Format(i) => Some(i),
            _ => None,
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> TorshError {
        if let Some(i) = self.info_mut() {
            i.hint = Some(hint.into());
        }
        self
    }

    /// Fills in the operation, its operands and the caller where they are not known yet.
    #[must_use]
    #[cold]
    pub fn in_op(
        mut self,
        op: &'static str,
        operands: impl FnOnce() -> Vec<String>,
        location: &'static Location<'static>,
    ) -> TorshError {
        if let Some(i) = self.info_mut() {
            if i.op.is_empty() {
                i.op = Cow::Borrowed(op);
                i.location = location;
            }
            if i.operands.is_empty() && i.op == op {
                i.operands = operands();
                i.location = location;
            }
        }
        self
    }

    /// Names the in-place form of `op` where the error is that op's own.
    #[must_use]
    #[cold]
    pub fn in_place(mut self, op: &str) -> TorshError {
        if let Some(i) = self.info_mut()
            && i.op == op
            && !op.ends_with('_')
        {
            i.op = Cow::Owned(format!("{op}_"));
        }
        self
    }

    /// Names `caller` as the place where the place so far lies in the crate of `file`, which is the
    /// crate's own `file!()`: a closure in a library is not where a user looks.
    #[must_use]
    #[cold]
    pub fn called_from(mut self, file: &str, caller: &'static Location<'static>) -> TorshError {
        let sources = file.rfind("src").map_or(file, |i| &file[..i + 3]);
        if let Some(i) = self.info_mut()
            && i.location.file().starts_with(sources)
        {
            i.location = caller;
        }
        self
    }

    /// Puts the error under the name of the operation the user called, when an inner one made it.
    #[must_use]
    #[cold]
    pub fn renamed(mut self, op: &str) -> TorshError {
        if let Some(i) = self.info_mut() {
            if i.op.is_empty() {
                i.op = Cow::Owned(op.to_string());
            } else if i.op != op {
                i.message = format!("{}: {}", i.op, i.message);
                i.op = Cow::Owned(op.to_string());
            }
        }
        self
    }
}

impl fmt::Display for TorshError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TorshError::OutOfMemory => {
                f.write_str("out of memory: the device cannot give the bytes asked for")?;
                match crate::alloc::last_refused() {
                    0 => {}
                    n => write!(f, ", {n} when this thread was last refused")?,
                }
                f.write_str(" (free tensors, or use smaller batches)")
            }
            TorshError::DeviceNotAvailable(s) => write!(f, "device not available: {s}"),
            TorshError::Io(e) => write!(f, "input/output: {e}"),
            TorshError::Other(s) => f.write_str(s),
            _ => {
                let Some(i) = self.info() else { return Ok(()) };
                if !i.op.is_empty() {
                    write!(f, "{}: ", i.op)?;
                }
                f.write_str(&i.message)?;
                if !i.operands.is_empty() {
                    write!(f, "\n  operands: {}", i.operands.join(", "))?;
                }
                if let Some(h) = &i.hint {
                    write!(f, "\n  hint: {h}")?;
                }
                write!(f, "\n  at {}", i.location)?;
                if i.backtrace.status() == BacktraceStatus::Captured {
                    write!(f, "\n{}", i.backtrace)?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for TorshError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for TorshError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TorshError::Io(e) => Some(e.as_ref()),
            _ => None,
        }
    }
}

impl From<std::io::Error> for TorshError {
    fn from(e: std::io::Error) -> TorshError {
        TorshError::Io(Box::new(e))
    }
}

impl From<crate::alloc::AllocError> for TorshError {
    fn from(_: crate::alloc::AllocError) -> TorshError {
        TorshError::OutOfMemory
    }
}

impl From<String> for TorshError {
    fn from(s: String) -> TorshError {
        TorshError::Other(s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_op_operands_and_hint() {
        let e = TorshError::shape("", "cannot broadcast shapes [2, 3] and [3, 4]")
            .with_hint("make the last dimensions equal")
            .in_op(
                "add",
                || vec!["float32[2, 3] cpu".into(), "float32[3, 4] cpu".into()],
                Location::caller(),
            );
        let text = e.to_string();
        assert!(
            text.starts_with("add: cannot broadcast shapes [2, 3] and [3, 4]"),
            "{text}"
        );
        assert!(
            text.contains("float32[3, 4] cpu") && text.contains("hint: make"),
            "{text}"
        );
        assert!(text.contains("error.rs"), "{text}");
    }

    #[test]
    fn a_place_within_a_library_becomes_the_callers() {
        let here = Location::caller();
        let made = || TorshError::shape("add", "no").with_hint("none");
        let place = |e: TorshError| e.info().map(|i| (i.location.file(), i.location.line()));
        let elsewhere = made().called_from("other/src/lib.rs", here);
        assert_ne!(place(elsewhere), Some((here.file(), here.line())));
        let library = made().called_from(file!(), here);
        assert_eq!(place(library), Some((here.file(), here.line())));
    }

    #[test]
    fn a_result_stays_small() {
        assert!(std::mem::size_of::<TorshError>() <= 32);
    }
}
