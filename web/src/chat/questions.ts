// What the value of an interrupt asks; the value is data of a graph, of any form.

export interface ToolQuestion {
  name: string;
  description: string;
  args: unknown;
  /** Of `approve`, `edit` and `reject`. */
  allowed: ReadonlySet<string>;
}

export type Question =
  | { kind: "tools"; tools: ToolQuestion[] }
  | { kind: "proposal"; text: string; reason: string }
  | { kind: "free"; text: string };

const every = ["approve", "edit", "reject"];

/** Return the question of LangChain's human-in-the-loop middleware, of a memory tool, or any other. */
export function questionOf(value: unknown): Question {
  if (typeof value === "string") return { kind: "free", text: value };
  if (isObject(value)) {
    if (Array.isArray(value["action_requests"])) return { kind: "tools", tools: toolsOf(value["action_requests"], value["review_configs"]) };
    if (value["type"] === "memory_proposal") return { kind: "proposal", text: String(value["text"]), reason: String(value["reason"] ?? "") };
    if (typeof value["question"] === "string") return { kind: "free", text: value["question"] };
  }
  return { kind: "free", text: JSON.stringify(value, null, 2) ?? "" };
}

function toolsOf(requests: readonly unknown[], configs: unknown): ToolQuestion[] {
  const reviews = Array.isArray(configs) ? configs.filter(isObject) : [];
  return requests.filter(isObject).map((request) => {
    const name = String(request["name"] ?? request["action"]);
    const review = reviews.find((one) => one["action_name"] === name);
    const allowed = review?.["allowed_decisions"];
    return {
      name,
      description: typeof request["description"] === "string" ? request["description"] : "",
      args: request["args"] ?? request["arguments"] ?? {},
      allowed: new Set(Array.isArray(allowed) ? allowed.map(String) : every),
    };
  });
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
