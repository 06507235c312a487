// The receipt of an erasure.
import type { Schemas } from "../api/client.ts";
import { formatNumber, texts } from "../texts.ts";
import { Facts } from "./facts.tsx";

export function Receipt({ receipt }: { receipt: Schemas["ErasedBody"] }) {
  const counts = Object.entries(receipt.counts).filter(([name, count]) => count > 0 && name !== "threads");
  const removed = [...counts.map(([name, count]) => `${name}: ${formatNumber(count)}`), `${texts.threads}: ${formatNumber(receipt.threads)}`];
  return (
    <>
      <Facts
        rows={[
          [texts.receiptId, receipt.receipt_id],
          [texts.receiptItems, removed.join(", ")],
          [texts.receiptKept, receipt.kept_in.length === 0 ? texts.receiptNowhere : receipt.kept_in.join(", ")],
        ]}
      />
      <p className="quiet">{texts.receiptHint}</p>
    </>
  );
}
