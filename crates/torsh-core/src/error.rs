//! The error type: what failed, on which operands, and what to do about it.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::borrow::Cow;
use std::fmt;
use std::panic::Location;

use crate::Device;

mod place;
mod refusal;

pub use place::at_caller;
pub(crate) use refusal::{bytes as last_refused, refuse as refused};

/// The result of everything that can fail; the error is a [`TorshError`] unless another type is named.
///
/// ```
/// use torsh_core::{Result, TorshError};
///
/// fn half(n: i64) -> Result<i64> {
///     if n % 2 == 0 { Ok(n / 2) } else { Err(TorshError::invalid("half", format!("{n} is odd"))) }
/// }
/// assert_eq!(half(6)?, 3);
/// assert!(half(7).unwrap_err().to_string().starts_with("half: 7 is odd"));
/// # Ok::<(), TorshError>(())
/// ```
pub type Result<T, E = TorshError> = std::result::Result<T, E>;

/// What an error of an operation knows about itself.
///
/// ```
/// use torsh_core::TorshError;
///
/// let error = TorshError::shape("add", "sizes 2 and 3 differ").with_hint("make the sizes equal");
/// let info = error.info().expect("an operation's error");
/// assert_eq!((&*info.op, &*info.message), ("add", "sizes 2 and 3 differ"));
/// assert_eq!(info.hint.as_deref(), Some("make the sizes equal"));
/// ```
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
    /// Captured when `RUST_BACKTRACE` or `RUST_LIB_BACKTRACE` asks for it. `{:?}` prints it, `{}` never does.
    pub backtrace: Backtrace,
}

/// An error of the operating system, as of [`std::io`], and where the call was made.
///
/// ```
/// use torsh_core::TorshError;
///
/// let system = std::io::Error::new(std::io::ErrorKind::NotFound, "no such model");
/// let TorshError::Io(error) = TorshError::from(system) else { panic!("an error of the system") };
/// assert_eq!(error.kind(), std::io::ErrorKind::NotFound); // Methods of `std::io::Error` work.
/// ```
#[derive(Debug)]
pub struct IoError {
    error: std::io::Error,
    location: &'static Location<'static>,
}

impl IoError {
    /// Returns the system's error, whose text names no place.
    ///
    /// ```
    /// use torsh_core::TorshError;
    ///
    /// let TorshError::Io(error) = TorshError::from(std::io::Error::other("disk full")) else { unreachable!() };
    /// assert_eq!(error.error().to_string(), "disk full");
    /// ```
    pub fn error(&self) -> &std::io::Error {
        &self.error
    }

    /// Returns where the call was made.
    ///
    /// ```
    /// use torsh_core::TorshError;
    ///
    /// let (error, line) = (TorshError::from(std::io::Error::other("disk full")), line!());
    /// let TorshError::Io(error) = error else { unreachable!() };
    /// assert_eq!(error.location().line(), line);
    /// ```
    pub fn location(&self) -> &'static Location<'static> {
        self.location
    }
}

impl std::ops::Deref for IoError {
    type Target = std::io::Error;

    fn deref(&self) -> &std::io::Error {
        &self.error
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

/// Everything that can go wrong. `Debug` prints the text of `Display` too, so that `main() ->
/// Result<()>` and `unwrap` show something to read; a backtrace follows it where `RUST_BACKTRACE` asks for one. `Display`
/// prints the same text whatever the environment says.
///
/// ```
/// use torsh_core::TorshError;
///
/// let error = TorshError::index("select", "index 7 is out of range for a dimension of size 3");
/// assert!(matches!(error, TorshError::Index(_)));
/// let text = error.to_string();
/// assert!(text.starts_with("select: index 7 is out of range for a dimension of size 3\n  at "));
/// assert_eq!(format!("{error:?}").lines().next(), text.lines().next());
/// ```
#[non_exhaustive]
pub enum TorshError {
    /// A device has no memory left for a request. The variant has no fields, so that a program can
    /// make and match it as a plain value; its text names the device, the bytes, the operation and
    /// its operands, which the thread that was refused keeps (see [`TorshError::out_of_memory`]).
    OutOfMemory,
    /// A device that this program does not have.
    DeviceNotAvailable(Box<ErrorInfo>),
    /// A device that was there is gone, and what was on it with it.
    DeviceLost(Box<ErrorInfo>),
    /// A device failed at work that was right, as a copy that did not arrive.
    DeviceFailed(Box<ErrorInfo>),
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
    Io(Box<IoError>),
    /// A file or text is not in its format.
    Format(Box<ErrorInfo>),
    /// Anything else, as text.
    Other(String),
}

macro_rules! constructors {
    ($($(#[$m:meta])* $name:ident => $variant:ident;)*) => {$(
        $(#[$m])*
        #[doc = concat!(
            "\n```\nuse torsh_core::TorshError;\n\n",
            "let error = TorshError::", stringify!($name), "(\"my_op\", \"what was wrong\");\n",
            "assert!(matches!(error, TorshError::", stringify!($variant), "(_)));\n",
            "assert!(error.to_string().starts_with(\"my_op: what was wrong\"));\n```"
        )]
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
        /// Makes the error of shapes that do not go together. `op` may be empty, here and in the other constructors:
        /// the dispatcher fills it in.
        shape => ShapeMismatch;
        /// Makes the error of operands on different devices.
        device => DeviceMismatch;
        /// Makes the error of a device that this program does not have.
        unavailable => DeviceNotAvailable;
        /// Makes the error of a device that is gone.
        lost => DeviceLost;
        /// Makes the error of a device that failed at its work.
        failed => DeviceFailed;
        /// Makes the error of a dtype that does not fit.
        dtype => DTypeMismatch;
        /// Makes the error of an argument outside of what is accepted.
        invalid => InvalidArgument;
        /// Makes the error of an index or a dimension that is out of range.
        index => Index;
        /// Makes the error of a call that breaks a rule of automatic differentiation.
        autograd => Autograd;
        /// Makes the error of a file or a text that is not in its format.
        format => Format;
    }

    /// [`TorshError::OutOfMemory`] of a request of `bytes` that a device refused; `usize::MAX` stands
    /// for more than can be counted, 0 for what is not known. The calling thread keeps device and bytes, and the operation
    /// that [`TorshError::in_op`] adds, until its next refusal: they are in the error's text as long
    /// as it stays on the thread.
    ///
    /// ```
    /// use torsh_core::{Device, TorshError};
    ///
    /// let error = TorshError::out_of_memory(Device::Cpu, 4096);
    /// assert!(matches!(error, TorshError::OutOfMemory));
    /// assert!(error.to_string().starts_with("out of memory: cpu cannot give the 4096 bytes asked for"));
    /// ```
    #[cold]
    pub fn out_of_memory(device: Device, bytes: usize) -> TorshError {
        refusal::refuse(device, bytes);
        TorshError::OutOfMemory
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

    /// Returns what the error knows, where it is an operation's; `None` for other errors.
    ///
    /// ```
    /// use torsh_core::TorshError;
    ///
    /// let error = TorshError::dtype("sin", "int64 has no sine");
    /// assert_eq!(error.info().map(|i| i.message.as_str()), Some("int64 has no sine"));
    /// assert!(TorshError::from("any text".to_string()).info().is_none());
    /// ```
    pub fn info(&self) -> Option<&ErrorInfo> {
        match self {
            TorshError::ShapeMismatch(i)
            | TorshError::DeviceNotAvailable(i)
            | TorshError::DeviceLost(i)
            | TorshError::DeviceFailed(i)
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
            | TorshError::DeviceNotAvailable(i)
            | TorshError::DeviceLost(i)
            | TorshError::DeviceFailed(i)
            | TorshError::DeviceMismatch(i)
            | TorshError::DTypeMismatch(i)
            | TorshError::InvalidArgument(i)
            | TorshError::Index(i)
            | TorshError::Autograd(i)
            | TorshError::Format(i) => Some(i),
            _ => None,
        }
    }

    /// Adds what to do about the error, which its text shows. Errors without [`ErrorInfo`] stay as they are.
    ///
    /// ```
    /// use torsh_core::TorshError;
    ///
    /// let error = TorshError::device("add", "operands on cpu and meta").with_hint("move one of them");
    /// assert!(error.to_string().contains("\n  hint: move one of them\n"));
    /// ```
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> TorshError {
        if let Some(i) = self.info_mut() {
            i.hint = Some(hint.into());
        }
        self
    }

    /// Fills in the operation, its operands and the caller where they are not known yet.
    ///
    /// ```
    /// use std::panic::Location;
    /// use torsh_core::TorshError;
    ///
    /// let made_by_a_kernel = TorshError::shape("", "sizes 2 and 3 differ");
    /// let error = made_by_a_kernel.in_op("add", || vec!["float32[2] cpu".into()], Location::caller());
    /// let text = error.to_string();
    /// assert!(text.starts_with("add: sizes 2 and 3 differ\n  operands: float32[2] cpu\n  at "));
    /// ```
    #[must_use]
    #[cold]
    pub fn in_op(
        self,
        op: &'static str,
        operands: impl FnOnce() -> Vec<String>,
        location: &'static Location<'static>,
    ) -> TorshError {
        let mut operands = Some(operands);
        self.in_op_of(
            op,
            &mut || operands.take().map_or_else(Vec::new, |f| f()),
            location,
        )
    }

    /// [`TorshError::in_op`], compiled once for all callers.
    fn in_op_of(
        mut self,
        op: &'static str,
        operands: &mut dyn FnMut() -> Vec<String>,
        location: &'static Location<'static>,
    ) -> TorshError {
        if matches!(self, TorshError::OutOfMemory) {
            refusal::name_op(op, operands, location);
        } else if let Some(i) = self.info_mut() {
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
    ///
    /// ```
    /// use torsh_core::TorshError;
    ///
    /// let error = TorshError::shape("add", "sizes 2 and 3 differ").in_place("add");
    /// assert!(error.to_string().starts_with("add_: sizes 2 and 3 differ"));
    /// ```
    #[must_use]
    #[cold]
    pub fn in_place(mut self, op: &str) -> TorshError {
        if matches!(self, TorshError::OutOfMemory) {
            refusal::in_place(op);
        } else if let Some(i) = self.info_mut()
            && i.op == op
            && !op.ends_with('_')
        {
            i.op = Cow::Owned(format!("{op}_"));
        }
        self
    }

    /// Returns where the call was made; `None` where the error does not know it.
    ///
    /// ```
    /// use torsh_core::TorshError;
    ///
    /// let (error, line) = (TorshError::invalid("pad", "negative size"), line!());
    /// assert_eq!(error.location().map(|place| place.line()), Some(line));
    /// ```
    pub fn location(&self) -> Option<&'static Location<'static>> {
        match self {
            TorshError::OutOfMemory => refusal::location(),
            TorshError::Io(e) => Some(e.location),
            _ => self.info().map(|i| i.location),
        }
    }

    /// The backtrace of the place where the error was made, where `RUST_BACKTRACE` or `RUST_LIB_BACKTRACE` asked for one.
    pub fn backtrace(&self) -> Option<&Backtrace> {
        let backtrace = &self.info()?.backtrace;
        (backtrace.status() == BacktraceStatus::Captured).then_some(backtrace)
    }

    /// Names `caller` as the place of the call, unless the place so far is one of the program already: that is where its
    /// author looks, and no line of a library.
    ///
    /// ```
    /// use std::panic::Location;
    /// use torsh_core::{Device, TorshError};
    ///
    /// let caller = Location::caller();
    /// let error = TorshError::out_of_memory(Device::Cpu, 64); // It knows no place yet.
    /// assert_eq!(error.at(caller).location(), Some(caller));
    /// ```
    #[must_use]
    #[cold]
    pub fn at(mut self, caller: &'static Location<'static>) -> TorshError {
        if self.location().is_none_or(place::in_library) {
            match &mut self {
                TorshError::OutOfMemory => refusal::at(caller),
                TorshError::Io(e) => e.location = caller,
                e => {
                    if let Some(i) = e.info_mut() {
                        i.location = caller;
                    }
                }
            }
        }
        self
    }

    /// Puts the error under the name of the operation the user called, when an inner one made it. The inner one's name
    /// stays in the message, unless it begins with `_`: nobody calls such an operation by name.
    ///
    /// ```
    /// use torsh_core::TorshError;
    ///
    /// let error = TorshError::shape("matmul", "inner sizes 2 and 3 differ").renamed("linear");
    /// assert!(error.to_string().starts_with("linear: matmul: inner sizes 2 and 3 differ"));
    /// ```
    #[must_use]
    #[cold]
    pub fn renamed(mut self, op: &str) -> TorshError {
        if let Some(i) = self.info_mut() {
            if i.op.is_empty() || i.op.starts_with('_') {
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
            TorshError::OutOfMemory => refusal::show(f),
            TorshError::Io(e) => write!(f, "input/output: {e}\n  at {}", e.location),
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
                write!(f, "\n  at {}", i.location)
            }
        }
    }
}

impl fmt::Debug for TorshError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        match self.backtrace() {
            Some(backtrace) => write!(f, "\nstack backtrace:\n{backtrace}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for TorshError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TorshError::Io(e) => Some(&e.error),
            _ => None,
        }
    }
}

impl From<std::io::Error> for TorshError {
    #[track_caller]
    fn from(error: std::io::Error) -> TorshError {
        TorshError::Io(Box::new(IoError {
            error,
            location: Location::caller(),
        }))
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
    fn the_text_has_no_backtrace() {
        let mut e = TorshError::shape("add", "no");
        let short = e.to_string();
        if let Some(i) = e.info_mut() {
            i.backtrace = Backtrace::force_capture();
        }
        assert_eq!(e.to_string(), short);
        let text = format!("{e:?}");
        let (first, rest) = text
            .split_once("\nstack backtrace:\n")
            .expect("a backtrace");
        assert_eq!(first, short);
        assert!(rest.contains("the_text_has_no_backtrace"), "{rest}");
        assert!(e.backtrace().is_some());
    }

    #[test]
    fn a_refusal_names_device_op_and_operands() {
        let refused = TorshError::out_of_memory(Device::Custom(1), 4096);
        assert!(
            refused.to_string().starts_with("out of memory: "),
            "{refused}"
        );
        let e = refused.in_op(
            "add",
            || vec!["float32[1024] custom:1".into()],
            Location::caller(),
        );
        let text = e.to_string();
        let whole = text.starts_with("add: out of memory: ")
            && text.contains(":1 cannot give the 4096 bytes");
        assert!(whole, "{text}");
        assert!(text.contains("operands: float32[1024] custom:1"), "{text}");
        assert!(text.contains("error.rs"), "{text}");
        // An outer operation does not take it over.
        let e = e.in_op("linear", Vec::new, Location::caller());
        assert!(e.to_string().starts_with("add: "), "{e}");
        // The next refusal starts anew.
        let text = TorshError::out_of_memory(Device::Cpu, usize::MAX).to_string();
        let whole = text.contains("cpu cannot give more bytes than can be counted");
        assert!(whole && !text.contains("add"), "{text}");
    }

    #[test]
    fn a_lost_device_is_named_with_the_operation() {
        let e =
            TorshError::lost("", "custom:0 was lost").in_op("mul", Vec::new, Location::caller());
        assert!(e.to_string().starts_with("mul: custom:0 was lost"), "{e}");
        assert!(matches!(e, TorshError::DeviceLost(_)));
    }

    #[test]
    fn a_result_stays_small() {
        assert!(std::mem::size_of::<TorshError>() <= 24);
    }
}
