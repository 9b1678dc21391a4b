//! Conversations as texts, by the template of a model.

use std::collections::BTreeMap;
use std::time::SystemTime;

use torsh_tensor::{Result, TorshError, options};

use super::chat_value::{ChatValue, set};
use super::jinja;
use super::tokenizer::Settings;

const OP: &str = "apply_chat_template";
/// The names under which models' thoughts are passed, the one that templates read first.
const THOUGHTS: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];
/// Marks the end of the last message where it goes on.
const GOES_ON: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// A message of a conversation: its role, its content, and other fields that a template reads, such as `tool_calls`.
///
/// ```
/// use torsh_text::tokenizers::{ChatMessage, ChatValue};
/// let message = ChatMessage::assistant("4").with("reasoning_content", "2 + 2");
/// assert_eq!(message.get("role"), Some(&ChatValue::from("assistant")));
/// let chat = ChatMessage::parse(r#"[{ "role": "user", "content": "hi" }]"#)?;
/// assert_eq!(chat, [ChatMessage::user("hi")]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatMessage {
    fields: Vec<(String, ChatValue)>,
}

impl ChatMessage {
    /// Makes a message of a role.
    ///
    /// ```
    /// use torsh_text::tokenizers::ChatMessage;
    /// let tool = ChatMessage::new("tool", "4").with("name", "add");
    /// assert_eq!(tool.get("name"), Some(&"add".into()));
    /// ```
    pub fn new(role: &str, content: impl Into<ChatValue>) -> Self {
        ChatMessage {
            fields: vec![
                ("role".into(), role.into()),
                ("content".into(), content.into()),
            ],
        }
    }

    /// Makes a message of what the user says.
    ///
    /// ```
    /// use torsh_text::tokenizers::ChatMessage;
    /// assert_eq!(ChatMessage::user("hi"), ChatMessage::new("user", "hi"));
    /// ```
    pub fn user(content: impl Into<ChatValue>) -> Self {
        ChatMessage::new("user", content)
    }

    /// Makes a message of what the model says.
    ///
    /// ```
    /// use torsh_text::tokenizers::ChatMessage;
    /// assert_eq!(ChatMessage::assistant("hi"), ChatMessage::new("assistant", "hi"));
    /// ```
    pub fn assistant(content: impl Into<ChatValue>) -> Self {
        ChatMessage::new("assistant", content)
    }

    /// Makes a message of what the model is told beforehand.
    ///
    /// ```
    /// use torsh_text::tokenizers::ChatMessage;
    /// assert_eq!(ChatMessage::system("hi"), ChatMessage::new("system", "hi"));
    /// ```
    pub fn system(content: impl Into<ChatValue>) -> Self {
        ChatMessage::new("system", content)
    }

    /// Sets a field.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<ChatValue>) -> Self {
        set(&mut self.fields, name, value.into());
        self
    }

    /// Gives a field, where the message has it.
    ///
    /// ```
    /// use torsh_text::tokenizers::{ChatMessage, ChatValue};
    /// let message = ChatMessage::user("hi");
    /// assert_eq!(message.get("content"), Some(&ChatValue::Text("hi".to_string())));
    /// assert_eq!(message.get("tool_calls"), None);
    /// ```
    pub fn get(&self, name: &str) -> Option<&ChatValue> {
        self.fields.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    /// Reads a conversation from JSON: a list of objects.
    ///
    /// # Errors
    /// A text that is not JSON, and one that is no list of objects.
    ///
    /// ```
    /// use torsh_text::tokenizers::ChatMessage;
    /// let json = r#"[{ "role": "system", "content": "Be short." }, { "role": "user", "content": "hi" }]"#;
    /// assert_eq!(ChatMessage::parse(json)?, [ChatMessage::system("Be short."), ChatMessage::user("hi")]);
    /// assert!(ChatMessage::parse("{}").is_err_and(|e| e.to_string().contains("a conversation is a list of objects")));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn parse(json: &str) -> Result<Vec<ChatMessage>> {
        let wrong = || TorshError::format("ChatMessage", "a conversation is a list of objects");
        let ChatValue::List(all) = ChatValue::parse(json)? else {
            return Err(wrong());
        };
        let messages = all.into_iter().map(|message| match message {
            ChatValue::Map(fields) => Ok(ChatMessage { fields }),
            _ => Err(wrong()),
        });
        messages.collect()
    }
}

/// The chat templates of a tokenizer: one, or several by name.
///
/// ```
/// use torsh_text::tokenizers::ChatTemplates;
/// let mut templates = ChatTemplates::from("{{ messages[0].content }}");
/// templates.insert("tool_use", "{{ tools }}");
/// assert_eq!(templates.default.as_deref(), Some("{{ messages[0].content }}"));
/// assert_eq!(templates.named["tool_use"], "{{ tools }}");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChatTemplates {
    /// The one that is used where no other is asked for.
    pub default: Option<String>,
    /// Others; `tool_use` is used where there are tools.
    pub named: BTreeMap<String, String>,
}

impl ChatTemplates {
    /// Adds a template by its name; `default` is [`ChatTemplates::default`].
    pub fn insert(&mut self, name: impl Into<String>, template: impl Into<String>) {
        let name = name.into();
        match &*name {
            "default" => self.default = Some(template.into()),
            _ => {
                self.named.insert(name, template.into());
            }
        }
    }
}

impl From<&str> for ChatTemplates {
    fn from(template: &str) -> Self {
        template.to_string().into()
    }
}

impl From<String> for ChatTemplates {
    fn from(template: String) -> Self {
        ChatTemplates {
            default: Some(template),
            named: BTreeMap::new(),
        }
    }
}

options! {
    /// The keyword arguments of Hugging Face's `apply_chat_template(..)`.
    ///
    /// ```
    /// use torsh_text::tokenizers::{ChatOptions, ChatValue};
    /// let options = ChatOptions::new().add_generation_prompt(true).variable("enable_thinking", false);
    /// assert_eq!(options.variables, [("enable_thinking".to_string(), ChatValue::Bool(false))]);
    /// ```
    ChatOptions {
        /// The template, or the name of one (the tokenizer's).
        chat_template: Option<String> = None, impl Into<String> => |v| Some(v.into());
        /// The functions that the model may call, as JSON schemas (none).
        tools: Option<Vec<ChatValue>> = None, Vec<ChatValue> => Some;
        /// Texts that the model may use (none).
        documents: Option<Vec<ChatValue>> = None, Vec<ChatValue> => Some;
        /// Whether the text ends with what the model's answer begins with (false).
        add_generation_prompt: bool = false;
        /// The field of the last message that the model goes on with, usually `content`: the text ends where it ends
        /// (none).
        continue_final_message: Option<String> = None, impl Into<String> => |v| Some(v.into());
        /// More variables of the template, as `enable_thinking`.
        variables: Vec<(String, ChatValue)> = Vec::new();
        /// The time that `strftime_now` tells, in UTC (now).
        now: Option<SystemTime> = None, SystemTime => Some;
    }
}

impl ChatOptions {
    /// Sets a variable of the template.
    #[must_use]
    pub fn variable(mut self, name: &str, value: impl Into<ChatValue>) -> Self {
        set(&mut self.variables, name, value.into());
        self
    }
}

fn wrong(why: impl Into<String>) -> TorshError {
    TorshError::invalid(OP, why)
}

/// The template that the options ask for.
fn template<'a>(templates: &'a ChatTemplates, options: &'a ChatOptions) -> Result<&'a str> {
    if let Some(asked) = &options.chat_template {
        return Ok(match (&**asked, templates.named.get(asked)) {
            (_, Some(template)) => template,
            ("default", None) => templates.default.as_deref().unwrap_or(asked),
            (asked, None) => asked,
        });
    }
    if options.tools.is_some()
        && let Some(template) = templates.named.get("tool_use")
    {
        return Ok(template);
    }
    templates.default.as_deref().ok_or_else(|| {
        if templates.named.is_empty() {
            return wrong("the tokenizer has no chat template").with_hint(
                "pass one with ChatOptions::new().chat_template(..), or set_chat_template(..)",
            );
        }
        let names: Vec<_> = templates.named.keys().map(|n| &**n).collect();
        wrong(format!(
            "the tokenizer has several chat templates and no default one: {}",
            names.join(", ")
        ))
        .with_hint("ask for one with ChatOptions::new().chat_template(name)")
    })
}

#[track_caller]
pub(super) fn apply(
    settings: &Settings,
    messages: &[ChatMessage],
    options: &ChatOptions,
) -> Result<String> {
    let template = template(&settings.templates, options)?;
    if messages.is_empty() {
        return Err(wrong("there is no message"));
    }
    let mut messages: Vec<_> = messages.iter().map(prepared).collect();
    let goes_on = match &options.continue_final_message {
        Some(_) if options.add_generation_prompt => {
            return Err(wrong(
                "continue_final_message goes on with the last message, and add_generation_prompt begins another one",
            ));
        }
        Some(field) => Some(mark_end(&mut messages, field, template)?),
        None => None,
    };

    let list = |all: &[ChatValue]| ChatValue::List(all.to_vec());
    let given = |all: &Option<Vec<ChatValue>>| all.as_deref().map_or(ChatValue::Null, list);
    let mut context: Vec<(String, ChatValue)> = settings
        .special
        .named()
        .map(|(name, token)| (name.to_string(), token.into()))
        .collect();
    for (name, value) in &options.variables {
        set(&mut context, name, value.clone());
    }
    let messages = messages.into_iter().map(ChatValue::Map).collect();
    for (name, value) in [
        ("messages", ChatValue::List(messages)),
        ("tools", given(&options.tools)),
        ("documents", given(&options.documents)),
        (
            "add_generation_prompt",
            options.add_generation_prompt.into(),
        ),
    ] {
        set(&mut context, name, value);
    }
    let now = options.now.unwrap_or_else(SystemTime::now);
    let text = jinja::render(template, ChatValue::Map(context).to_jinja(), now).map_err(|why| {
        wrong(format!("the chat template: {why}")).with_hint(
            "change the conversation if the template refuses it, or pass another template with \
                 ChatOptions::new().chat_template(..)",
        )
    })?;
    match goes_on {
        Some(last) => cut(text, &last),
        None => Ok(text),
    }
}

/// A message as templates see it: without fields that are null, and with the thoughts under the name that is read.
fn prepared(message: &ChatMessage) -> Vec<(String, ChatValue)> {
    let fields = message.fields.iter();
    let fields = fields.filter(|(_, value)| *value != ChatValue::Null);
    let mut fields: Vec<_> = fields.cloned().collect();
    let find = |name: &str| {
        fields
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.clone())
    };
    if let Some(thoughts) = THOUGHTS.iter().find_map(|name| find(name)) {
        if find("thinking").is_none() {
            fields.insert(0, ("thinking".into(), thoughts.clone()));
        }
        set(&mut fields, "reasoning_content", thoughts);
    }
    fields
}

/// Marks the end of the last message's text, which is returned without the mark.
fn mark_end(
    messages: &mut [Vec<(String, ChatValue)>],
    field: &str,
    template: &str,
) -> Result<String> {
    let absent = || wrong(format!("the last message has no {field:?} to go on with"));
    let last = messages.last_mut().ok_or_else(absent)?;
    let value = last
        .iter()
        .find(|(n, _)| n == field)
        .map(|(_, v)| v.clone());
    let value = value.ok_or_else(absent)?;
    // The thoughts are there under several names.
    let fields: Vec<String> = match THOUGHTS.contains(&field) {
        true => {
            let same = last
                .iter()
                .filter(|(n, v)| THOUGHTS.contains(&&**n) && *v == value);
            same.map(|(n, _)| n.clone()).collect()
        }
        false => vec![field.to_string()],
    };
    if !fields.iter().any(|name| template.contains(&**name)) {
        return Err(wrong(format!("the chat template does not read {field:?}")));
    }
    let mut text = None;
    for (_, value) in last.iter_mut().filter(|(n, _)| fields.contains(n)) {
        match value {
            ChatValue::Text(value) => {
                text = Some(value.clone());
                value.push_str(GOES_ON);
            }
            ChatValue::List(parts) => {
                for part in parts.iter_mut().rev() {
                    let ChatValue::Map(part) = part else { continue };
                    if let Some((_, ChatValue::Text(value))) =
                        part.iter_mut().find(|(n, _)| n == "text")
                    {
                        text = Some(value.clone());
                        value.push_str(GOES_ON);
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    text.ok_or_else(|| {
        wrong(format!(
            "{field:?} of the last message holds no text to go on with"
        ))
    })
}

/// The text up to the mark.
fn cut(mut text: String, last: &str) -> Result<String> {
    let mark = GOES_ON.trim_end();
    let at = text.rfind(mark).filter(|_| text.contains(last.trim()));
    let at = at.ok_or_else(|| {
        wrong("the chat template does not write the whole last message, so it cannot go on")
    })?;
    // Where the template removes spaces at the end, those of the message are removed too.
    let whole = text[at..].starts_with(GOES_ON);
    text.truncate(at);
    if !whole {
        text.truncate(text.trim_end().len());
    }
    Ok(text)
}

#[cfg(test)]
#[path = "chat_golden_tests.rs"]
mod golden_tests;
#[cfg(test)]
#[path = "chat_tests.rs"]
mod tests;
