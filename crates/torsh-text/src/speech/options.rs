//! How sounds are transcribed.

use torsh_tensor::named::Named;
use torsh_tensor::{Result, TorshError};

/// What Whisper writes.
///
/// ```
/// use torsh_text::speech::{Task, TranscribeOptions};
/// assert_eq!(TranscribeOptions::new().task("translate").task, Task::Translate);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Task {
    /// What was said, in its language.
    #[default]
    Transcribe,
    /// A translation into English.
    Translate,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(torsh_tensor::named::Unknown),
}

torsh_tensor::named! {
    Task, "task",
    "transcribe" => Task::Transcribe,
    "translate" => Task::Translate,
}

macro_rules! transcribe_options {
    ($($(#[doc = $doc:literal])+ $field:ident: $ty:ty = $default:expr, $arg:ty => $convert:expr;)*) => {
        /// How a sound is transcribed. Names and defaults are those of OpenAI's `whisper.transcribe`.
        ///
        /// ```
        /// use torsh_text::speech::TranscribeOptions;
        /// let options = TranscribeOptions::new().language("de").task("translate").beam_size(5).temperature(0.0);
        /// assert_eq!((options.beam_size, options.temperatures), (Some(5), vec![0.0]));
        /// assert_eq!(TranscribeOptions::new().temperatures.len(), 6);
        /// ```
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct TranscribeOptions {
            $($(#[doc = $doc])+ pub $field: $ty,)*
        }

        impl Default for TranscribeOptions {
            fn default() -> Self {
                TranscribeOptions { $($field: $default,)* }
            }
        }

        impl TranscribeOptions {
            /// Options with OpenAI's defaults.
            ///
            /// ```
            /// use torsh_text::speech::TranscribeOptions;
            /// let options = TranscribeOptions::new();
            /// assert_eq!((options.language, options.beam_size, options.timestamps), (None, None, true));
            /// assert_eq!(options.temperatures, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
            /// ```
            pub fn new() -> TranscribeOptions {
                TranscribeOptions::default()
            }

            $(
                $(#[doc = $doc])+
                #[must_use]
                pub fn $field(mut self, $field: $arg) -> TranscribeOptions {
                    self.$field = $convert($field);
                    self
                }
            )*
        }
    };
}

transcribe_options! {
    /// The language's code or English name; told from the first 30 seconds unless given.
    language: Option<String> = None, &str => |s: &str| Some(s.to_string());
    /// Whether the text is translated into English.
    task: Task = Task::Transcribe, impl Into<Task> => Into::into;
    /// Whether segments have times of their own; else each has 30 seconds.
    timestamps: bool = true, bool => |b| b;
    /// The number of beams at temperature 0; the likeliest token is taken unless given.
    beam_size: Option<usize> = None, impl Into<Option<usize>> => Into::into;
    /// The temperatures that are tried in turn while the text is bad.
    temperatures: Vec<f64> = vec![0.0, 0.2, 0.4, 0.6, 0.8, 1.0], impl Into<Vec<f64>> => Into::into;
    /// A text is bad where compression makes it so many times shorter.
    compression_ratio_threshold: Option<f64> = Some(2.4), impl Into<Option<f64>> => Into::into;
    /// A text is bad where the mean of the logarithms of its probabilities is below this.
    logprob_threshold: Option<f64> = Some(-1.0), impl Into<Option<f64>> => Into::into;
    /// A bad text is silence where the probability that nobody speaks is above this.
    no_speech_threshold: Option<f64> = Some(0.6), impl Into<Option<f64>> => Into::into;
    /// Whether each window is told what was said before it.
    condition_on_previous_text: bool = true, bool => |b| b;
    /// What the first window is told: names, or the style.
    initial_prompt: Option<String> = None, &str => |s: &str| Some(s.to_string());
    /// Tokens that are never written; those that the model's files name unless given.
    suppress_tokens: Option<Vec<i64>> = None, impl Into<Vec<i64>> => |v: _| Some(Into::into(v));
    /// The most tokens of a window; half of the decoder's positions unless given.
    max_new_tokens: Option<usize> = None, impl Into<Option<usize>> => Into::into;
    /// By how many steps of 0.02 seconds the first time may be late.
    max_initial_timestamp: usize = 50, usize => |n| n;
}

impl TranscribeOptions {
    /// Sets one temperature, without others to fall back to.
    ///
    /// ```
    /// use torsh_text::speech::TranscribeOptions;
    /// assert_eq!(TranscribeOptions::new().temperature(0.5).temperatures, [0.5]);
    /// ```
    #[must_use]
    pub fn temperature(self, temperature: f64) -> TranscribeOptions {
        self.temperatures([temperature])
    }

    pub(super) fn check(&self) -> Result<()> {
        let wrong = |why: String| Err(TorshError::invalid("TranscribeOptions", why));
        let task = self.task.known();
        task.map_err(|e| e.renamed("TranscribeOptions"))?;
        if self.temperatures.is_empty() {
            return wrong("temperatures is empty".into());
        }
        if let Some(t) = self
            .temperatures
            .iter()
            .find(|t| !t.is_finite() || **t < 0.0)
        {
            return wrong(format!("the temperature {t} is not at least 0"));
        }
        if self.beam_size == Some(0) || self.max_new_tokens == Some(0) {
            return wrong("beam_size and max_new_tokens must be at least 1".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_may_be_words() {
        assert_eq!(
            TranscribeOptions::new().task("translate").task,
            Task::Translate
        );
        let e = TranscribeOptions::new()
            .task("subtitle")
            .check()
            .unwrap_err()
            .to_string();
        assert!(
            e.contains("TranscribeOptions: subtitle is not a valid value for task"),
            "{e}"
        );
        assert!(e.contains("task is \"transcribe\" or \"translate\""), "{e}");
    }
}
