// A chat through the gateway: the same request that an application would send.
import { count, duration } from "./format.js";

class Chat {
  constructor(root) {
    this.root = root;
    this.texts = JSON.parse(document.getElementById("try-texts").textContent);
    this.messages = [];
    this.pass = null;
    this.abort = null;
    this.form = root.querySelector("[data-form]");
    this.log = root.querySelector("[data-log]");
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    root.querySelector("[data-stop]").addEventListener("click", () => this.abort?.abort());
    root.querySelector("[data-clear]").addEventListener("click", () => this.clear());
    root.querySelector("#message").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.form.requestSubmit();
    });
  }

  clear() {
    this.abort?.abort();
    this.messages = [];
    for (const line of this.log.querySelectorAll("[data-line]")) line.remove();
    this.root.querySelector("[data-empty]").hidden = false;
  }

  async send() {
    const field = this.root.querySelector("#message");
    const text = field.value.trim();
    if (!text || this.abort) return;
    field.value = "";
    this.show("you", text);
    const line = this.show("answer", this.texts.waiting);
    this.abort = new AbortController();
    this.busy(true);
    const asked = [...this.messages, { role: "user", content: text }];
    try {
      const said = await this.answer(asked, line);
      this.messages = [...asked, { role: "assistant", content: said }];
    } catch (error) {
      const stopped = error.name === "AbortError";
      line.textContent = stopped ? this.texts.stopped : error.message;
      line.classList.toggle("text-danger", !stopped);
    } finally {
      this.abort = null;
      this.busy(false);
      this.say(line.textContent);
    }
  }

  async answer(messages, line) {
    const began = performance.now();
    let response = await this.ask(messages);
    if (response.status === 401) {
      this.pass = null; // it has run out
      response = await this.ask(messages);
    }
    if (!response.ok) throw new Error(await this.refusal(response));
    const facts = { ...this.headers(response) };
    let said = "";
    for await (const event of events(response)) {
      if (event.error) throw new Error(this.texts.refused.replace("%s", event.error.message));
      const piece = event.choices?.[0]?.delta?.content;
      if (piece) {
        facts.first ??= duration(performance.now() - began);
        said += piece;
        line.textContent = said;
      }
      if (event.usage) {
        facts.tokens = `${count(event.usage.prompt_tokens)} / ${count(event.usage.completion_tokens)}`;
      }
    }
    facts.took = duration(performance.now() - began);
    this.showFacts(facts);
    return said;
  }

  async ask(messages) {
    this.pass ??= await this.newPass();
    const lane = this.root.querySelector("#lane").value;
    try {
      return await fetch("/v1/chat/completions", {
        method: "POST",
        signal: this.abort.signal,
        credentials: "omit",
        headers: {
          Authorization: `Bearer ${this.pass}`,
          "Content-Type": "application/json",
          ...(lane ? { "X-Priority": lane } : {}),
        },
        body: JSON.stringify({
          model: this.root.querySelector("#model").value,
          messages,
          max_tokens: Number(this.root.querySelector("#most").value) || 256,
          stream: true,
          stream_options: { include_usage: true },
        }),
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Error(this.texts.no_gateway);
    }
  }

  async newPass() {
    const body = new FormData(this.form);
    body.set("business", this.root.dataset.business);
    const response = await fetch(this.root.dataset.pass, { method: "POST", body });
    if (!response.ok) throw new Error(this.texts.no_pass);
    // Those who check credentials hear of a new one within two seconds.
    const { token } = await response.json();
    await this.known(token);
    return token;
  }

  async known(token) {
    for (let tries = 0; tries < 20; tries += 1) {
      const headers = { Authorization: `Bearer ${token}` };
      const answer = await fetch("/v1/models", { headers, credentials: "omit" });
      if (answer.ok) return;
      if (answer.status !== 401) break;
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
    throw new Error(this.texts.no_gateway);
  }

  async refusal(response) {
    this.showFacts(this.headers(response));
    let why = response.headers.get("X-Fairlane-Reason") ?? String(response.status);
    try {
      why = (await response.json()).error.message;
    } catch {
      // Not the gateway's own answer.
    }
    return this.texts.refused.replace("%s", why);
  }

  headers(response) {
    const wait = response.headers.get("X-Queue-Wait-Ms");
    return {
      lane: response.headers.get("X-Lane"),
      wait: wait === null ? null : duration(Number(wait)),
      replica: response.headers.get("X-Replica"),
      request: response.headers.get("X-Request-Id"),
    };
  }

  showFacts(facts) {
    const list = this.root.querySelector("[data-facts]");
    list.replaceChildren();
    for (const name of ["lane", "wait", "replica", "first", "took", "tokens", "request"]) {
      if (!facts[name]) continue;
      const row = document.createElement("div");
      const term = document.createElement("dt");
      const value = document.createElement("dd");
      term.textContent = this.texts[name];
      value.textContent = facts[name];
      value.dataset.fact = name;
      row.append(term, value);
      list.append(row);
    }
    this.root.querySelector("[data-nothing]").hidden = list.children.length > 0;
  }

  show(who, text) {
    this.root.querySelector("[data-empty]").hidden = true;
    const line = document.createElement("div");
    line.dataset.line = who;
    const name = document.createElement("strong");
    name.textContent = this.texts[who];
    const body = document.createElement("p");
    body.textContent = text;
    line.append(name, body);
    this.log.append(line);
    this.log.scrollTop = this.log.scrollHeight;
    return body;
  }

  busy(isBusy) {
    this.root.querySelector("[data-send]").disabled = isBusy;
    this.root.querySelector("[data-stop]").hidden = !isBusy;
  }

  say(text) {
    document.querySelector("[data-say]").textContent = text;
  }
}

// The data of a stream's events, as they come; comments keep it alive and say nothing.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    const lines = rest.split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const data = line.startsWith("data:") ? line.slice(5).trim() : "";
      if (data && data !== "[DONE]") yield JSON.parse(data);
    }
  }
}

const root = document.querySelector("[data-try]");
if (root) new Chat(root);
