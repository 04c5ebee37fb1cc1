// What a client got from the server. It is the same for every generator.
export interface Seen {
  integrations: string[];
  flows: number;
  hit: string | null;
  required: string[];
  schemaType: unknown;
  confirmation: boolean;
  read: string;
  stored: string;
  blocked: string;
  sentOnce: boolean;
  replayed: string | null;
  tool: string | undefined;
  started: string;
  waiting: string | undefined;
  approved: boolean;
  sent: string | undefined;
  cancelled: string;
  missing: string;
  keyless: string;
}
