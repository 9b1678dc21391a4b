use super::*;
use crate::tokenizers::{ChatMessage, ChatOptions, EncodeOptions};

const PIPELINE: &str = r#"{
    "added_tokens": [],
    "pre_tokenizer": { "type": "WhitespaceSplit" },
    "model": { "type": "WordLevel", "unk_token": "<unk>",
               "vocab": { "<unk>": 0, "<s>": 1, "</s>": 2, "a": 3, "b": 4 } }
}"#;

/// A folder that is removed at the end of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, &str)]) -> Result<Folder> {
        let name = format!("torsh-text-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        for (file, content) in files {
            let path = folder.join(file);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(path, content)?;
        }
        Ok(Folder(folder))
    }

    fn load(&self) -> Result<Tokenizer> {
        load(&self.0.display().to_string())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_files_of_a_folder_together_make_the_tokenizer() -> Result<()> {
    let config = r#"{
        "add_bos_token": true, "add_eos_token": false,
        "bos_token": "<s>", "eos_token": { "content": "</s>" }, "pad_token": "<pad>",
        "model_max_length": 4, "padding_side": "left",
        "chat_template": "{{ bos_token }}{{ messages[0].content }}",
        "added_tokens_decoder": { "5": { "content": "<pad>", "special": true }, "1": { "content": "<s>", "special": true } }
    }"#;
    let folder = Folder::new(
        "together",
        &[
            (TOKENIZER, PIPELINE),
            (CONFIG, config),
            (ADDED, r#"{ "<x>": 6 }"#),
            ("additional_chat_templates/tool_use.jinja", "tools"),
        ],
    )?;
    let t = folder.load()?;
    assert_eq!(t.encode("a b q")?.ids, [1, 3, 4, 0]);
    assert_eq!(t.encode_pair("a", "b")?.type_ids, [0, 0, 1, 1]);
    assert_eq!((t.pad_token_id(), t.token_to_id("<x>")), (Some(5), Some(6)));
    assert_eq!((t.len(), t.vocab_size()), (7, 5));
    assert_eq!(t.decode(&[1, 3, 2], true)?, "a");
    let options = EncodeOptions::new().truncation(true).padding(true);
    let batch = t.encode_batch(&["a b a b a", "a"], &options)?;
    assert_eq!(batch[0].ids, [1, 3, 4, 3]);
    assert_eq!(batch[1].ids, [5, 5, 1, 3]);
    let chat = [ChatMessage::user("hi")];
    assert_eq!(t.apply_chat_template(&chat, &ChatOptions::new())?, "<s>hi");

    let copy = Folder::new("copy", &[])?;
    t.save_pretrained(&copy.0)?;
    let again = copy.load()?;
    assert_eq!(again.encode("a b q")?, t.encode("a b q")?);
    assert_eq!(again.special_tokens(), t.special_tokens());
    assert_eq!(again.chat_templates(), t.chat_templates());
    assert_eq!(again.to_json()?, t.to_json()?);
    assert_eq!(again.model_max_length(), Some(4));
    Ok(())
}

#[test]
fn errors_name_the_file_and_the_field() -> Result<()> {
    for (i, (config, names)) in [
        (r#"{ "padding_side": "up" }"#, "padding_side"),
        (r#"{ "bos_token": 3 }"#, "bos_token"),
        (
            r#"{ "added_tokens_decoder": { "x": {} } }"#,
            "added_tokens_decoder.x",
        ),
        (r#"{ "chat_template": 3 }"#, "chat_template"),
        (r#"{ "bos_token": "#, "JSON"),
        ("[]", "object"),
    ]
    .iter()
    .enumerate()
    {
        let folder = Folder::new(
            &format!("wrong{i}"),
            &[(TOKENIZER, PIPELINE), (CONFIG, config)],
        )?;
        let error = folder.load().err().map(|e| e.to_string());
        let both = error
            .as_ref()
            .is_some_and(|e| e.contains(CONFIG) && e.contains(names));
        assert!(both, "{config}: {error:?}");
    }
    let empty = Folder::new("empty", &[("readme.md", "")])?;
    let error = empty.load().err().map(|e| e.to_string());
    assert!(error.is_some_and(|e| e.contains("vocab.txt") && e.contains("spiece.model")));
    assert!(load("./there-is-no-such-folder").is_err());
    Ok(())
}
