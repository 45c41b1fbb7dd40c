// The forms of messages, as Python's types declare them: each tells whether a value has it. Nothing is
// made of a message that has another: JavaScript adds a text to a number.

// Neither bytes nor a float, which are objects too.
const isObject = (value) =>
  value !== null && typeof value === "object" && Object.getPrototypeOf(value) === Object.prototype;

export const one = (...words) => (value) => words.includes(value);
export const flag = (value) => typeof value === "boolean";
export const number = (least, most) => (value) =>
  typeof value === "number" && value >= least && value <= most;
export const whole = (least = 0, most = Number.MAX_SAFE_INTEGER) => (value) =>
  Number.isSafeInteger(value) && value >= least && value <= most;
// Of characters, as Python counts them.
export const text = (least = 0, most = Infinity) => (value) =>
  typeof value === "string" && [...value].length >= least && [...value].length <= most;
export const like = (pattern) => (value) => typeof value === "string" && pattern.test(value);
export const bytes = (least = 0, most = Infinity) => (value) =>
  value instanceof Uint8Array && value.length >= least && value.length <= most;
export const list = (form, most = Infinity) => (value) =>
  Array.isArray(value) && value.length <= most && value.every((each) => form(each));
export const row = (...forms) => (value) =>
  Array.isArray(value) &&
  value.length === forms.length &&
  forms.every((form, at) => form(value[at]));
export const map = (form) => (value) =>
  isObject(value) && Object.values(value).every((each) => form(each));
// What may be missing.
export const maybe = (form) => (value) => value === undefined || form(value);
export const object = (forms) => (value) => isObject(value) && wrong(value, forms) === null;
// An object without other fields.
export const exact = (forms) => (value) =>
  object(forms)(value) && Object.keys(value).every((name) => Object.hasOwn(forms, name));

// The name of the first field that has another form; null if there is none.
export const wrong = (fields, forms) =>
  Object.keys(forms).find((name) => !forms[name](fields[name])) ?? null;
